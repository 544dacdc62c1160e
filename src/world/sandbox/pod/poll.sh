# Waits until the command of directory $d has ended, or has written more than $o and $e bytes, and prints a
# line about what follows, and then that: at most $m bytes of its output and of its errors. With more than $p
# processes, all of them are killed.
if [ ! -d "$d" ]; then
	echo 'massgen gone'
	exit 0
fi
alive() { [ ! -s "$d/pid" ] || kill -0 "$(cat "$d/pid")"; }
crowded() {
	set -- /proc/[0-9]*
	[ $# -gt $p ]
}
killed=
n=0
news=0
while [ ! -s "$d/status" ] && [ $n -lt 65 ]; do
	if [ $(($(wc -c <"$d/out"))) -gt $o ] || [ $(($(wc -c <"$d/err"))) -gt $e ]; then
		news=$((news + 1))
		[ $news -gt 2 ] && break
	fi
	alive || break
	if crowded; then
		kill -9 -1
		killed=yes
		break
	fi
	n=$((n + 1))
	pause=0.2
	[ $n -lt 20 ] && pause=0.05
	[ $n -lt 5 ] && pause=0.01
	sleep $pause || sleep 1
done 2>/dev/null
s='- -'
# A supervisor that was killed leaves no status.
alive 2>/dev/null || s='- 137'
# They may not be gone yet.
[ -n "$killed" ] && s='crowded 137'
if [ -s "$d/status" ]; then IFS= read -r s <"$d/status"; fi
x=$(wc -c <"$d/out")
y=$(wc -c <"$d/err")
a=$((x - o))
b=$((y - e))
[ $a -gt $m ] && a=$m
[ $b -gt $m ] && b=$m
[ $a -lt 0 ] && a=0
[ $b -lt 0 ] && b=0
printf 'massgen %s %s %s %s %s\n' $a $b $((x)) $((y)) "$s"
[ $a -gt 0 ] && tail -c +$((o + 1)) "$d/out" | head -c $a
[ $b -gt 0 ] && tail -c +$((e + 1)) "$d/err" | head -c $b
exit 0
