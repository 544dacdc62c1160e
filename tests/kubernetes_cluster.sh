#!/usr/bin/env bash
# Starts a real Kubernetes and runs a command beside it: an API server, the controllers, a scheduler, etcd,
# and two nodes with kubelet and containerd, all of them in namespaces of their own on this machine. When the
# command ends, nothing of it is left.
#
#   tests/kubernetes_cluster.sh MASSGEN COMMAND…
#
# The image of pods has the libraries of the binary MASSGEN. The command gets the variables WORK (a directory,
# of which WORK/shared is for volumes), IMAGE, NAMESPACE and KUBECONFIG. Debian 12 has no package of the servers,
# so the first run compiles them from Debian's source, which takes ten minutes on two idle cores;
# MASSGEN_TEST_KUBERNETES names a directory that keeps them. Only root can run this. Installs what is missing.
set -euo pipefail

readonly VERSION='1.20.5+really1.20.2-1.1+deb12u1' SERVERS='kube-apiserver kube-controller-manager kube-scheduler kubelet'
export IMAGE=massgen.test/base:1 NAMESPACE=evals

# build CACHE: compiles the servers, unless CACHE has them.
build() {
  local site source=$1/source options
  [ "$(cat "$1/version" 2> /dev/null)" = "$VERSION" ] && return
  # A build that was stopped left it.
  rm -rf "$source"
  mkdir -p "$source/lists/partial" "$source/home"
  # The index of sources, without a change to the lists of this machine.
  # shellcheck disable=SC2016
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' | head -n 1)
  echo "deb-src $site bookworm main" > "$source/sources.list"
  options=(-qq -o Dir::Etc::sourcelist="$source/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$source/lists")
  (
    cd "$source"
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --only-source "kubernetes=$VERSION"
    cd kubernetes-*/
    # The copy of this library that the source has crashes with Go 1.18 and later.
    rsync -a --delete --exclude='*_test.go' /usr/share/gocode/src/github.com/modern-go/reflect2/ vendor/github.com/modern-go/reflect2/
    HOME=$source/home CGO_ENABLED=0 nice -n 19 make WHAT="${SERVERS//kube/cmd\/kube}"
    # shellcheck disable=SC2086
    (cd _output/bin && install -t "$1" $SERVERS)
  )
  chmod -R u+w "$source" && rm -rf "$source"
  echo "$VERSION" > "$1/version"
}

# make_image FILE: writes an image with the programs of BusyBox and the libraries of massgen, which is on a volume.
make_image() {
  local root=$work/image/root digest
  mkdir -p "$root"/{bin,etc,proc,tmp,root}
  chmod 1777 "$root/tmp"
  cp /usr/bin/busybox "$root/bin"
  for name in $(busybox --list | grep -vx busybox); do ln -s busybox "$root/bin/$name"; done
  echo 'root:x:0:0::/root:/bin/sh' > "$root/etc/passwd"
  for library in $(ldd "$massgen" | grep -o '/[^ ]*'); do
    install -D "$library" "$root$library"
  done
  tar -C "$root" -cf "$work/image/layer.tar" .
  digest=$(sha256sum "$work/image/layer.tar" | cut -d ' ' -f 1)
  cat > "$work/image/config.json" <<JSON
{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "2147483647"]}}
JSON
  echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$IMAGE\"], \"Layers\": [\"layer.tar\"]}]" > "$work/image/manifest.json"
  tar -C "$work/image" -cf "$1" manifest.json config.json layer.tar
}

# daemon NAME COMMAND…: starts a server whose output is NAME.log.
daemon() {
  "${@:2}" > "$work/$1.log" 2>&1 &
  echo $! > "$work/$1.pid"
  disown
}

# until_true WHAT COMMAND…: waits until a command succeeds. The command of this script has it too.
until_true() {
  local what=$1
  shift
  for _ in $(seq 1200); do
    "$@" > /dev/null 2>&1 && return
    sleep 0.1
  done
  echo "waited in vain: $what" >&2
  return 1
}

# start_control_plane: starts what nodes and users talk to. `admin` may do everything, `user` what the
# documentation of batches asks for, and `guest` nothing.
start_control_plane() {
  local flags=(--kubeconfig="$work/admin" --leader-elect=false)
  openssl genrsa -out "$work/account.key" 2048 2> /dev/null
  printf '%s\n' 'admin-token,admin,1,system:masters' user-token,user,2 guest-token,guest,3 > "$work/tokens.csv"
  for name in admin user guest; do
    cat > "$work/$name" <<YAML
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: $name, user: {token: $name-token}}]
contexts: [{name: test, context: {cluster: test, user: $name, namespace: $NAMESPACE}}]
YAML
  done
  daemon etcd etcd --data-dir "$work/etcd" --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380
  daemon apiserver "$cache/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=127.0.0.1 \
    --advertise-address=10.231.0.1 --cert-dir="$work/certificates" --token-auth-file="$work/tokens.csv" \
    --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$work/account.key" \
    --service-account-signing-key-file="$work/account.key" \
    --default-not-ready-toleration-seconds=2 --default-unreachable-toleration-seconds=2
  until_true "an API server" kubectl --kubeconfig="$work/admin" get --raw /readyz
  daemon controllers "$cache/kube-controller-manager" "${flags[@]}" --port=0 \
    --service-account-private-key-file="$work/account.key" --node-monitor-grace-period=12s
  daemon scheduler "$cache/kube-scheduler" "${flags[@]}" --port=0
}

# start_node NUMBER: starts a node.
start_node() {
  local node=$work/node$1 address=10.231.0.$1
  mkdir -p "$node/cni"
  cat > "$node/cni/pods.conf" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "type": "ptp",
 "ipam": {"type": "host-local", "subnet": "10.232.$1.0/24", "dataDir": "$node/addresses"}}
JSON
  cat > "$node/containerd.toml" <<TOML
version = 2
root = "$node/containers"
state = "$node/state"
[grpc]
address = "$node/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "$IMAGE"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$node/cni"
TOML
  cat > "$node/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
port: 10250
healthzPort: $((10300 + $1))
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 3s
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
YAML
  daemon "containerd$1" containerd --config "$node/containerd.toml"
  until_true "containerd" ctr -a "$node/containerd.sock" version
  ctr -a "$node/containerd.sock" -n k8s.io images import "$work/image.tar" > /dev/null
  daemon "kubelet$1" "$cache/kubelet" --kubeconfig="$work/admin" --config="$node/kubelet.yaml" \
    --container-runtime=remote --container-runtime-endpoint="unix://$node/containerd.sock" \
    --node-ip="$address" --hostname-override="node$1" --root-dir="$node/kubelet" \
    --image-credential-provider-bin-dir= --volume-plugin-dir="$node/plugins"
}

# start_cluster: starts everything, and waits until pods can run.
start_cluster() {
  # Mounts of kubelet must reach its containers, and nothing beyond.
  mount --make-rshared /
  # Pods see the boot of this machine, so that massgen takes them for other hosts than its own.
  cat /proc/sys/kernel/random/uuid > "$work/boot"
  mount --bind "$work/boot" /proc/sys/kernel/random/boot_id
  ip link set lo up
  ip link add nodes type veth peer name peer
  ip link set nodes up
  ip link set peer up
  ip address add 10.231.0.1/24 dev nodes
  ip address add 10.231.0.2/24 dev nodes
  make_image "$work/image.tar"
  start_control_plane
  start_node 1
  start_node 2
  export KUBECONFIG=$work/admin
  kubectl create namespace "$NAMESPACE"
  kubectl create role batches --verb=create,get,list,delete --resource=jobs.batch
  kubectl create role readers --verb=list --resource=pods,events
  for role in batches readers; do kubectl create rolebinding "$role" --role="$role" --user=user; done
  kubectl create secret generic model-keys --from-literal=OPENAI_API_KEY=sk-of-the-cluster
  until_true "nodes" kubectl wait --for=condition=Ready --timeout=1s node/node1 node/node2
  until_true "an account" kubectl get serviceaccount default
}

# install_packages: installs what is missing.
install_packages() {
  local package missing=()
  for package in golang-go golang-github-modern-go-reflect2-dev make dpkg-dev rsync etcd-server containerd runc \
    containernetworking-plugins busybox-static iproute2 openssl jq; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q ' installed' || missing+=("$package")
  done
  command -v kubectl > /dev/null || missing+=(kubernetes-client)
  [ "${#missing[@]}" = 0 ] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

if [ "${1:-}" = --inside ]; then
  massgen=$2 cache=$3 work=$4
  mkdir "$work/shared"
  start_cluster > "$work/start.log" 2>&1 || { cat "$work/start.log"; tail -n 5 "$work"/*.log; exit 1; }
  export WORK=$work
  export -f until_true
  "${@:5}"
  exit
fi

if [ "$(id -u)" != 0 ] || ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
  echo "this needs root on Debian 12" >&2
  exit 1
fi
massgen=$(realpath "$1")
work=$(mktemp -d /var/tmp/massgen-kubernetes.XXXXXX)
cluster=
# end: ends the namespaces and with them everything in them.
end() {
  [ -z "$cluster" ] || kill -KILL "$cluster" 2> /dev/null || true
  wait
  # Groups of processes that have ended are empty; others cannot be removed.
  find /sys/fs/cgroup -depth -path '*/k8s.io*' -type d -exec rmdir {} + 2> /dev/null || true
  rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM HUP
cache=${MASSGEN_TEST_KUBERNETES:-$work/cache}
mkdir -p "$cache"
cache=$(realpath "$cache")
install_packages
build "$cache"
unshare --mount --net --pid --fork --kill-child --mount-proc bash "${BASH_SOURCE[0]}" --inside "$massgen" "$cache" "$work" "${@:2}" <&0 &
cluster=$!
wait "$cluster"
