# The first lines of the supervisor of a command in a pod, which leads a session of its own: it reads what
# proves that a status is its own, and remembers where to write it.
IFS= read -r massgen_proof <&3
exec 3<&-
massgen_dir=$2
