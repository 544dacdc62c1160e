# Removes everything that the arguments name, with `\0OOO` for a byte. Only empty directories may be left,
# where their parents belong to another user.
for name; do
	shift
	case $name in *\\*)
		name=$(printf '%b.' "$name")
		name=${name%.}
	esac
	set -- "$@" "$name"
done
rm -rf -- "$@" 2>/dev/null
for path; do
	if [ -L "$path" ]; then exit 1; fi
	if [ -d "$path" ]; then
		if [ -n "$(ls -A "$path")" ]; then exit 1; fi
	elif [ -e "$path" ]; then
		exit 1
	fi
done
