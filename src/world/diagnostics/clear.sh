# Kills every process with $ROOT in its command line or environment, and empties $ROOT.
exec > /dev/null 2>&1
for round in 1 2 3; do
  found=$(grep -lzaF -- "$ROOT" /proc/[0-9]*/environ /proc/[0-9]*/cmdline | cut -d/ -f3 | sort -u)
  for pid in $found; do
    [ "$pid" = $$ ] || kill -9 "$pid" && left=yes
  done
  [ -n "$left" ] || break
  left=
done
while read -r _ _ _ _ at _; do
  case $at in "$ROOT"/*) umount -l "$at" ;; esac
done < /proc/self/mountinfo
chmod -R u+rwX "$ROOT"
find "$ROOT" -mindepth 1 -delete
