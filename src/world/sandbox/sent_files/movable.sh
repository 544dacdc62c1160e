# Prints the first directory above the arguments, with `\0OOO` for a byte, in which the user of this shell may
# rename what belongs to others.
for path; do
	case $path in *\\*)
		path=$(printf '%b.' "$path")
		path=${path%.}
	esac
	above=$path
	while [ -n "$above" ]; do
		above=${above%/*}
		if [ -w "${above:-/}" ] && [ ! -k "${above:-/}" ]; then
			printf '%s\n' "${above:-/}"
			exit
		fi
	done
done
