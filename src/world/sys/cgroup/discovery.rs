//! Finds where massgen could create control groups (cgroups), from what the kernel reports about
//! mounts and about this process. Nothing here reads the disk.

use crate::path::AbsPath;

/// A resource that a control group counts and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CgroupResource {
    /// Bytes of memory.
    Memory,
    /// Processes and threads.
    Processes,
}

impl CgroupResource {
    /// All resources.
    pub(crate) const ALL: [CgroupResource; 2] = [CgroupResource::Memory, CgroupResource::Processes];

    /// Returns the kernel's name of the controller that counts it.
    pub(crate) fn controller(self) -> &'static str {
        match self {
            CgroupResource::Memory => "memory",
            CgroupResource::Processes => "pids",
        }
    }
}

/// Which of the kernel's two interfaces a hierarchy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    /// One hierarchy per resource.
    One,
    /// A single hierarchy, where each group selects the controllers of its children.
    Two,
}

/// The group of this process in a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCgroup {
    /// The version of the interface.
    pub(crate) version: CgroupVersion,
    /// The root of the hierarchy.
    pub(crate) top: AbsPath,
    /// The group of this process in it.
    pub(crate) group: AbsPath,
}

/// Returns the hierarchies that could count `resource`, from `/proc/self/mountinfo` and
/// `/proc/self/cgroup`.
pub(crate) fn own_groups(resource: CgroupResource, mounts: &str, groups: &str) -> Vec<OwnCgroup> {
    let mounts = mounts.lines().filter_map(CgroupMount::parse);
    let own_groups = mounts.filter_map(|mount| {
        let version = match mount.kind {
            "cgroup" if mount.has_controller(resource) => CgroupVersion::One,
            "cgroup2" => CgroupVersion::Two,
            _ => return None,
        };
        let path = own_path(version, resource, groups)?;
        let top = AbsPath::new(mount.point)?;
        // In a container, the mount may show only a part of the hierarchy.
        let rel_path = AbsPath::new(path)?.below(&AbsPath::new(mount.root)?)?;
        let group = top.join(rel_path.as_path());
        Some(OwnCgroup {
            version,
            top,
            group,
        })
    });
    own_groups.collect()
}

/// The fields of a line of `/proc/self/mountinfo` that are used here.
struct CgroupMount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount_part, file_system_part) = line.split_once(" - ")?;
        let mut mount_fields = mount_part.split(' ').skip(3);
        let mut file_system_fields = file_system_part.split(' ');
        Some(Self {
            root: mount_fields.next()?,
            point: mount_fields.next()?,
            kind: file_system_fields.next()?,
            options: file_system_fields.nth(1)?,
        })
    }

    fn has_controller(&self, resource: CgroupResource) -> bool {
        let mut options = self.options.split(',');
        options.any(|option| option == resource.controller())
    }
}

/// Returns the path of this process in a hierarchy, from the lines of `/proc/self/cgroup`:
/// `number:controllers:path`.
fn own_path(version: CgroupVersion, resource: CgroupResource, groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let is_hierarchy = match version {
            CgroupVersion::One => controllers
                .split(',')
                .any(|name| name == resource.controller()),
            CgroupVersion::Two => controllers.is_empty(),
        };
        is_hierarchy.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory
39 31 0:36 /docker/1 /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
42 31 0:38 / /tmp/odd rw";

    #[track_caller]
    fn check(resource: CgroupResource, groups: &str, expected: &[(CgroupVersion, &str)]) {
        let groups_found = own_groups(resource, MOUNTS, groups);
        let versions_and_groups: Vec<(CgroupVersion, String)> = groups_found
            .into_iter()
            .map(|own| (own.version, own.group.to_string()))
            .collect();
        let expected: Vec<(CgroupVersion, String)> = expected
            .iter()
            .map(|(version, path)| (*version, (*path).to_owned()))
            .collect();
        assert_eq!(versions_and_groups, expected);
    }

    #[test]
    fn the_own_group_is_found_in_each_hierarchy() {
        let memory = ("9:memory:/a/b\n0::/user/x", CgroupResource::Memory);
        check(
            memory.1,
            memory.0,
            &[
                (CgroupVersion::One, "/sys/fs/cgroup/memory/a/b"),
                (CgroupVersion::Two, "/sys/fs/cgroup/unified/user/x"),
            ],
        );
        let pids = "8:cpu,pids:/docker/1/c";
        check(
            CgroupResource::Processes,
            pids,
            &[(CgroupVersion::One, "/sys/fs/cgroup/pids/c")],
        );
        check(CgroupResource::Memory, pids, &[]);
        // The mount shows another part of the hierarchy.
        check(CgroupResource::Processes, "8:pids:/docker/2", &[]);
        check(CgroupResource::Memory, "", &[]);
    }
}
