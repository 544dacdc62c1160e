#!/usr/bin/env python3
"""Packages a finished massgen for users: packaging/package.py BINARY VERSION OUT.

Writes a tarball, a wheel, an npm package, a Debian package, the Dockerfile of an image, an SBOM and
SHA256SUMS to the new directory OUT. The same input gives the same bytes: times are SOURCE_DATE_EPOCH, or
that of the commit. Needs `readelf`, and `cargo` with the sources of all dependencies.
"""

import base64
import concurrent.futures
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
import zipfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = REPOSITORY / "packaging"
SUMMARY = "Several LLM agents, one task, one gate: each works on its own, they vote, the winner delivers."
# `massgen` is the name of the Python program on PyPI.
REGISTRY_NAME = "massgen-cli"
# The number of the processor in an ELF header, and its names: of Rust, Debian and Node.js.
MACHINES = {62: ("x86_64", "amd64", "x64"), 183: ("aarch64", "arm64", "arm64")}
# What every Linux with glibc has. Rust's runtime is the only user of libgcc_s.
SYSTEM_LIBRARIES = r"(libc|libm|libdl|libpthread|librt|libutil|libgcc_s|ld-linux-[\w-]+)\.so\.\d"
# A glibc that old is what `manylinux2014`, the oldest tag in use, stands for.
OLDEST_GLIBC = (2, 17)


class Refused(Exception):
    """An input that cannot be packaged, and what to do about it."""


def output_of(*command, binary=False):
    """Returns what a command prints."""
    try:
        done = subprocess.run(command, capture_output=True, cwd=REPOSITORY, check=True)
    except FileNotFoundError:
        raise Refused(f"`{command[0]}` is missing\nhint: install it") from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        raise Refused(f"`{' '.join(map(str, command))}` failed: {said or error}") from None
    return done.stdout if binary else done.stdout.decode()


class Program:
    """The finished binary, what it needs, and what it says of itself."""

    def __init__(self, path, version):
        try:
            self.bytes = path.read_bytes()
        except OSError as error:
            raise Refused(f"cannot read the binary `{path}`: {error.strerror}\nhint: build it with packaging/build.sh") from None
        if self.bytes[:5] != b"\x7fELF\x02" or len(self.bytes) < 64:
            raise Refused(f"`{path}` is not a 64-bit Linux program")
        number = int.from_bytes(self.bytes[18:20], "little")
        if number not in MACHINES:
            raise Refused(f"`{path}` is for a processor that is not packaged (ELF machine {number})")
        self.machine, self.debian, self.node = MACHINES[number]
        if self.machine != platform.machine():
            raise Refused(
                f"`{path}` is for {self.machine}, and this machine is {platform.machine()}\n"
                f"hint: package it on {self.machine}: it prints its own manual and completions"
            )
        if not os.access(path, os.X_OK):
            raise Refused(f"`{path}` is not executable\nhint: chmod +x {path}")
        said = output_of(path, "--version").strip()
        if said != f"massgen {version}":
            raise Refused(f"`{path}` is `{said}`, expected `massgen {version}`")
        self.needs = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", path))
        unusual = [name for name in self.needs if not re.fullmatch(SYSTEM_LIBRARIES, name)]
        if unusual:
            raise Refused(f"`{path}` needs {', '.join(unusual)}, which not every Linux has\nhint: link it statically")
        needed = output_of("readelf", "--version-info", "--wide", path)
        versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", needed)]
        if "GLIBC_ABI_DT_RELR" in needed:
            versions.append((2, 36))
        self.glibc = max([OLDEST_GLIBC, *versions])
        self.target = f"{self.machine}-unknown-linux-gnu"
        # Each page begins with the same line.
        pages = re.split(rb"^(?=\.ie )", output_of(path, "man", binary=True), flags=re.MULTILINE)
        self.manual = {re.search(rb"^\.TH (\S+)", page, re.MULTILINE)[1].decode(): page for page in pages if page}
        self.completions = {shell: output_of(path, "completions", shell, binary=True) for shell in ("bash", "zsh", "fish")}

    def files(self, zsh_directory):
        """Returns the files below a prefix such as /usr, with their modes."""
        return {
            "bin/massgen": (0o755, self.bytes),
            "share/bash-completion/completions/massgen": (0o644, self.completions["bash"]),
            f"share/zsh/{zsh_directory}/_massgen": (0o644, self.completions["zsh"]),
            "share/fish/vendor_completions.d/massgen.fish": (0o644, self.completions["fish"]),
        } | {f"share/man/man1/{name}.1": (0o644, page) for name, page in self.manual.items()}


class Dependencies:
    """What others wrote and the binary contains: crates, and libraries of the page."""

    def __init__(self, target):
        command = ("cargo", "metadata", "--locked", "--offline", "--format-version=1", f"--filter-platform={target}")
        metadata = json.loads(output_of(*command))
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        root = metadata["resolve"]["root"]
        found, waiting = set(), [root]
        while waiting:
            for dependency in nodes[waiting.pop()]["deps"]:
                linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if linked and dependency["pkg"] not in found:
                    found.add(dependency["pkg"])
                    waiting.append(dependency["pkg"])
        packages = [package for package in metadata["packages"] if package["id"] in found]
        self.crates = sorted(packages, key=lambda package: (package["name"], package["version"]))
        locked = r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"'
        lock = (REPOSITORY / "Cargo.lock").read_text()
        self.checksums = {(name, number): checksum for name, number, checksum in re.findall(locked, lock)}
        sources = sorted((REPOSITORY / "src/cli/web/page/vendor").glob("*/SOURCE"))
        self.libraries = [(path.parent, dict(line.split(": ", 1) for line in path.read_text().splitlines())) for path in sources]

    def bill_of_materials(self, version, epoch):
        """Returns the SBOM, in the format of CycloneDX."""
        components = []
        for crate in self.crates:
            component = {
                "type": "library",
                "name": crate["name"],
                "version": crate["version"],
                "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            }
            if crate["license"]:
                component["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
            checksum = self.checksums.get((crate["name"], crate["version"]))
            if checksum:
                component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
            components.append(component)
        for _, source in self.libraries:
            purl = f"pkg:npm/{source['name'].replace('@', '%40')}@{source['version']}"
            components.append({"type": "library", "name": source["name"], "version": source["version"], "purl": purl})
        serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))
        bill = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "serialNumber": f"urn:uuid:{serial}",
            "version": 1,
            "metadata": {
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                "component": {"type": "application", "name": "massgen", "version": version, "purl": f"pkg:cargo/massgen@{version}"},
            },
            "components": components,
        }
        return json.dumps(bill, indent=1).encode() + b"\n"

    def licenses(self):
        """Returns massgen's license and those of all dependencies, each text once."""
        texts = {}
        places = [(f"{crate['name']} {crate['version']}", pathlib.Path(crate["manifest_path"]).parent) for crate in self.crates]
        places += [(f"{source['name']} {source['version']}", directory) for directory, source in self.libraries]
        for name, directory in places:
            for path in sorted(directory.rglob("*")):
                named = re.match(r"(LICEN[SC]E|COPYING|COPYRIGHT|NOTICE)", path.name.upper())
                if named and path.is_file() and path.suffix != ".rs":
                    text = path.read_text(errors="replace").strip()
                    texts.setdefault(text, {})[name] = None
        parts = ["massgen\n\n" + (REPOSITORY / "LICENSE").read_text().strip()]
        parts += ["\n".join(names) + "\n\n" + text for text, names in texts.items()]
        return (f"\n\n{'-' * 78}\n\n".join(parts) + "\n").encode()


def tar_gz(files, epoch, root=""):
    """Returns a compressed archive of files and their directories, which belong to root."""
    names = set(files)
    for name in files:
        names.update(str(parent) for parent in pathlib.PurePosixPath(name).parents)
    names.discard(".")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(names):
            entry = tarfile.TarInfo(root + name)
            entry.mtime = epoch
            entry.uname = entry.gname = "root"
            if name in files:
                entry.mode, content = files[name]
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=epoch)


def tarball(program, version, licenses, epoch):
    """A tree for a prefix such as ~/.local."""
    name = f"massgen-{version}-{program.target}"
    files = program.files("site-functions") | {"share/doc/massgen/LICENSES": (0o644, licenses)}
    return f"{name}.tar.gz", tar_gz({f"{name}/{path}": file for path, file in files.items()}, epoch)


def wheel(program, version, licenses, epoch):
    """A package for pip, pipx and uv: scripts and data of no Python version."""
    name = f"{REGISTRY_NAME.replace('-', '_')}-{version}"
    tags = ["manylinux_{}_{}_{}".format(*program.glibc, program.machine)]
    if program.glibc == OLDEST_GLIBC:
        tags.append(f"manylinux2014_{program.machine}")
    information = f"{name}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {REGISTRY_NAME}\nVersion: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n"
    described = "Wheel-Version: 1.0\nGenerator: massgen\nRoot-Is-Purelib: false\n" + "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    files = {f"{name}.data/data/{path}": file for path, file in program.files("site-functions").items()}
    files[f"{name}.data/scripts/massgen"] = files.pop(f"{name}.data/data/bin/massgen")
    files |= {
        f"{information}/METADATA": (0o644, metadata.encode()),
        f"{information}/WHEEL": (0o644, described.encode()),
        f"{information}/licenses/LICENSES": (0o644, licenses),
    }
    record = ""
    for path, (_, content) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{information}/RECORD"] = (0o644, f"{record}{information}/RECORD,,\n".encode())
    packed = io.BytesIO()
    # A ZIP file cannot hold a time before 1980.
    written_at = time.gmtime(max(epoch, 315532800))[:6]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (mode, content) in files.items():
            entry = zipfile.ZipInfo(path, written_at)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return f"{name}-py3-none-{'.'.join(tags)}.whl", packed.getvalue()


def npm_package(program, version, licenses, epoch):
    """A package for npm."""
    manifest = {
        "name": REGISTRY_NAME,
        "version": version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "bin": {"massgen": "bin/massgen"},
        "man": [f"share/man/man1/{name}.1" for name in program.manual],
        "os": ["linux"],
        "cpu": [program.node],
        "libc": ["glibc"],
    }
    files = program.files("site-functions") | {
        "package.json": (0o644, json.dumps(manifest, indent=2).encode() + b"\n"),
        "LICENSES": (0o644, licenses),
    }
    packed = tar_gz({f"package/{path}": file for path, file in files.items()}, epoch)
    return f"{REGISTRY_NAME}-{version}-linux-{program.node}.tgz", packed


def debian_package(program, version, licenses, epoch):
    """A package for Debian and Ubuntu, with the AppArmor profile that Ubuntu needs."""
    files = program.files("vendor-completions") | {
        "share/doc/massgen/copyright": (0o644, licenses),
        "share/massgen/apparmor": (0o644, (PACKAGING / "deb/apparmor").read_bytes()),
    }
    for path in [path for path in files if path.startswith("share/man/")]:
        mode, page = files.pop(path)
        files[f"{path}.gz"] = (mode, gzip.compress(page, mtime=epoch))
    files = {f"usr/{path}": file for path, file in files.items()}
    depends = ["libc6 (>= {}.{})".format(*program.glibc)]
    if "libgcc_s.so.1" in program.needs:
        depends.append("libgcc-s1 | libgcc1")
    control = {
        "Package": "massgen",
        "Version": version,
        "Architecture": program.debian,
        "Maintainer": "The massgen developers",
        "Installed-Size": sum(len(content) for _, content in files.values()) // 1024,
        "Depends": ", ".join(depends),
        "Recommends": "ca-certificates, git",
        "Section": "devel",
        "Priority": "optional",
        "Description": SUMMARY.removesuffix("."),
    }
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, (_, content) in sorted(files.items()))
    about = {
        "control": (0o644, "".join(f"{key}: {value}\n" for key, value in control.items()).encode()),
        "md5sums": (0o644, sums.encode()),
        "postinst": (0o755, (PACKAGING / "deb/postinst").read_bytes()),
        "prerm": (0o755, (PACKAGING / "deb/prerm").read_bytes()),
    }
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar_gz(about, epoch, root="./"),
        "data.tar.gz": tar_gz(files, epoch, root="./"),
    }
    packed = b"!<arch>\n"
    for name, content in members.items():
        packed += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return f"massgen_{version}_{program.debian}.deb", packed


def write_whole(out, artefacts):
    """Writes all files, or nothing."""
    staged = pathlib.Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        for name, content in artefacts.items():
            (staged / name).write_bytes(content)
            (staged / name).chmod(0o644)
        staged.chmod(0o755)
        staged.rename(out)
    except BaseException:
        shutil.rmtree(staged)
        raise


def package(binary, version, out):
    """Packages `binary` into the new directory `out`."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"the version is `{version}`, expected three numbers such as `1.2.3`")
    if os.path.lexists(out):
        raise Refused(f"`{out}` already exists\nhint: name a new directory")
    if not out.parent.is_dir():
        raise Refused(f"`{out.parent}` is not a directory\nhint: mkdir -p {out.parent}")
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct").strip()
    if not re.fullmatch(r"\d{1,11}", epoch):
        raise Refused(f"SOURCE_DATE_EPOCH is `{epoch}`, expected seconds since 1970")
    epoch = int(epoch)
    program = Program(binary, version)
    dependencies = Dependencies(program.target)
    licenses = dependencies.licenses()
    makers = (tarball, wheel, npm_package, debian_package)
    # Compression takes most of the time, and runs in threads.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        artefacts = dict(pool.map(lambda make: make(program, version, licenses, epoch), makers))
    artefacts[f"massgen-{version}-{program.target}.cdx.json"] = dependencies.bill_of_materials(version, epoch)
    artefacts["Dockerfile"] = (PACKAGING / "Dockerfile").read_bytes()
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(artefacts.items()))
    artefacts["SHA256SUMS"] = sums.encode()
    write_whole(out, artefacts)


def main(arguments):
    """Runs the command line, and returns its exit status."""
    if len(arguments) != 3:
        print("usage: packaging/package.py BINARY VERSION OUT", file=sys.stderr)
        return 2
    binary, version, out = arguments
    try:
        package(pathlib.Path(binary).resolve(), version, pathlib.Path(out).absolute())
    except (Refused, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
