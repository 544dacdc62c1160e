# Removes everything that the arguments name. Only empty directories may be left, where their parents
# belong to another user.
rm -rf -- "$@" 2>/dev/null
for path; do
	if [ -L "$path" ]; then exit 1; fi
	if [ -d "$path" ]; then
		if [ -n "$(ls -A "$path")" ]; then exit 1; fi
	elif [ -e "$path" ]; then
		exit 1
	fi
done
