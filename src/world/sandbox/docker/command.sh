# Runs the command $1 in the current directory and sets `status` to its status. This shell leads its own
# session; it kills what is left of the session, and every process that carries its mark.
if [ -d .venv/bin ]; then
  VIRTUAL_ENV=$PWD/.venv
  PATH=$VIRTUAL_ENV/bin:$PATH
  export VIRTUAL_ENV PATH
fi
if command -v bash >/dev/null 2>&1; then
  bash -c "$1"
else
  sh -c "$1"
fi
status=$?
exec >/dev/null 2>&1
for round in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for stat in /proc/[0-9]*/stat; do
    pid=${stat#/proc/}
    pid=${pid%/stat}
    [ "$pid" = 1 ] || [ "$pid" = $$ ] && continue
    # A process name may contain spaces, parentheses and newlines: the fields follow the last `)`.
    line=
    while IFS= read -r part || [ -n "$part" ]; do line=$line$part; done <"$stat"
    set -- ${line##*) }
    [ "$1" = Z ] || [ "$4" = 1 ] && continue
    if [ "$4" = $$ ] || tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "MASSGEN_COMMAND=$MASSGEN_COMMAND"; then
      kill -9 "$pid" && left=1
    fi
  done
  [ -n "$left" ] || break
done
