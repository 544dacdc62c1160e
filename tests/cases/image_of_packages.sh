# Puts the files of the packages $2 and on, with all that they need, into the directory $1. What this
# machine has changed of them, as in /etc, is left out.
root=$1
shift
mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,root,proc,sys,dev,home,var}
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
mkdir -m 1777 "$root/tmp" "$root/var/tmp"
needed=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
  --no-breaks --no-replaces --no-enhances "$@" | grep '^[a-z0-9]' | sort -u)
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' $needed 2> /dev/null | sed -n 's/^ii *//p')
dpkg-query -L $installed | sed -E 's:^/(bin|sbin|lib|lib64)/:/usr/\1/:' | grep '^/usr/' \
  | grep -vE '^/usr/share/(doc|man|locale|info|lintian)/' | sort -u \
  | while IFS= read -r file; do if [ -L "$file" ] || [ -f "$file" ]; then echo ".$file"; fi; done \
  | tar -C / --no-recursion -T - -c | tar -C "$root" -x
ln -sf mawk "$root/usr/bin/awk"
cp /usr/lib/os-release "$root/etc/os-release"
echo 'root:x:0:0:root:/root:/bin/bash' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
