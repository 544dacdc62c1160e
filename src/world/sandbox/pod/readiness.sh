# Prints the programs that massgen needs in a pod and that are missing in its image, and then whether the API
# server of the cluster can be reached from the pod: open, closed or unknown.
missing=
for program in setsid tar head tail wc rm mv ls tr grep sed sleep find; do
	command -v $program >/dev/null 2>&1 || missing="$missing $program"
done
echo "missing$missing"
address=$KUBERNETES_SERVICE_HOST
port=$KUBERNETES_SERVICE_PORT
connect() {
	if command -v bash >/dev/null 2>&1; then
		bash -c 'exec 3<>"/dev/tcp/$1/$2"' massgen "$address" "$port"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import socket, sys; socket.create_connection(sys.argv[1:], 5)' "$address" "$port"
	elif command -v nc >/dev/null 2>&1; then
		nc -w 2 "$address" "$port" </dev/null
	else
		return 9
	fi
}
if [ -z "$address" ] || [ -z "$port" ]; then
	echo unknown
	exit 0
fi
connect >/dev/null 2>&1 &
job=$!
n=0
while kill -0 $job 2>/dev/null && [ $n -lt 30 ]; do
	n=$((n + 1))
	sleep 0.1 || sleep 1
done 2>/dev/null
if kill -9 $job 2>/dev/null; then
	echo closed
	exit 0
fi
wait $job
case $? in
0) echo open ;;
9) echo unknown ;;
*) echo closed ;;
esac
