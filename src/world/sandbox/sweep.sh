# Kills every process in the container except the first one and the commands with the given marks.
[ $# -gt 0 ] || { kill -9 -1; exit 0; }
exec >/dev/null 2>&1
session_of() {
  line=
  while IFS= read -r part || [ -n "$part" ]; do line=$line$part; done <"/proc/$1/stat"
  set -- ${line##*) }
  session=$4
}
marked() {
  found=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^MASSGEN_COMMAND=//p')
  [ -n "$found" ] || return 1
  case " $marks " in *" $found "*) return 0 ;; esac
  return 1
}
marks=$*
kept=" 1 $$ "
for round in 1 2 3 4 5 6 7 8 9 10; do
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    marked "$pid" && session_of "$pid" && kept="$kept$session "
  done
  left=
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    session_of "$pid"
    case $kept in *" $session "*) continue ;; esac
    marked "$pid" || { kill -9 "$pid" && left=1; }
  done
  [ -n "$left" ] || break
done
exit 0
