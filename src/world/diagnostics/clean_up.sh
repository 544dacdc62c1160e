# Kills every process with $ROOT in its command line or environment, and empties $ROOT.
exec > /dev/null 2>&1
for round in 1 2 3; do
  left=
  for file in $(grep -lzaF -- "$ROOT" /proc/[0-9]*/environ /proc/[0-9]*/cmdline); do
    file=${file#/proc/}
    pid=${file%/*}
    # The search has found itself too, and has ended.
    [ "$pid" != $$ ] && kill -9 "$pid" && left=yes
  done
  [ -n "$left" ] || break
done
# A loop of `read` on the file would take longer than all the rest: it reads a little at a time.
mapfile -t mounts < /proc/self/mountinfo
for mount in "${mounts[@]}"; do
  case $mount in *" $ROOT/"*) ;; *) continue ;; esac
  read -r _ _ _ _ at _ <<< "$mount"
  case $at in "$ROOT"/*) umount -l "$at" ;; esac
done
chmod -R u+rwX "$ROOT"
find "$ROOT" -mindepth 1 -delete
