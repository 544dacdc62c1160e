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
while read -r _ _ _ _ at _; do
  case $at in "$ROOT"/*) umount -l "$at" ;; esac
done < /proc/self/mountinfo
chmod -R u+rwX "$ROOT"
find "$ROOT" -mindepth 1 -delete
