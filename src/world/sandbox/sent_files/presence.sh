# Prints a line about every path that the arguments name, with `\0OOO` for a byte: whether a file,
# directory or symlink is there. A directory that cannot be searched may hide one.
for name; do
	path=$name
	case $name in *\\*)
		path=$(printf '%b.' "$name")
		path=${path%.}
	esac
	if [ -L "$path" ] || [ -f "$path" ] || [ -d "$path" ]; then
		echo there
		continue
	fi
	above=${path%/*}
	while [ -n "$above" ] && [ ! -e "$above" ]; do above=${above%/*}; done
	if [ -x "$above/" ]; then echo gone; else echo unknown; fi
done
