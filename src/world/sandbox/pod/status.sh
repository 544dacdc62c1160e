# The last line of the supervisor: the status of the command. The file has its block on the disk already.
printf '%s %s\n' "$massgen_proof" "$status" 1<>"$massgen_dir/next" && mv "$massgen_dir/next" "$massgen_dir/status"
