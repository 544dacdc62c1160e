#!/usr/bin/env bash
# Runs batches on a real Kubernetes of two nodes: whatever is lost there, each cell has one result and one bill,
# and nothing is left. The argument is the binary (target/debug/massgen); further ones are names of
# checks. Needs what tests/kubernetes_cluster.sh needs. Ends with "N passed, N failed".
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
massgen=$(realpath "${1:-$here/../target/debug/massgen}")
if [ "$(id -u)" != 0 ] || ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
  echo "a Kubernetes needs root and Debian 12" >&2
  exit 1
fi
if [ -z "${WORK:-}" ]; then
  exec bash "$here/kubernetes_cluster.sh" "$massgen" bash "${BASH_SOURCE[0]}" "$massgen" "${@:2}"
fi

# project NAME CELLS DELAY [LINE…]: makes a directory with so many tasks whose runs take DELAY milliseconds, and
# goes there. Further lines are for the file of the pods.
project() {
  local dir=$WORK/shared/$1
  rm -rf "$dir"
  mkdir -p "$dir/app"
  cd "$dir"
  echo old > app/a.txt
  for number in $(seq "$2"); do
    echo "{\"id\": \"c$number\", \"text\": \"x\", \"project\": {\"path\": \"app\"}}"
  done > tasks.jsonl
  # The first reply is paid and quick, the second one takes its time.
  cat > team.yaml <<YAML
agents:
  - id: writer
    backend:
      type: scripted
      cwd: workspace
      replies:
        - when: {system: "the final agent", last: "b.txt"}
          text: "done"
        - when: {system: "the final agent"}
          delay_ms: $3
          calls: [{name: write_file, arguments: {path: "{{cwd}}/b.txt", content: "new\n"}}]
        - usage: {output_tokens: 1000}
          calls: [{name: new_answer, arguments: {content: "an answer"}}]
YAML
  echo 'models: [{name: scripted, usd_per_million_tokens: {input: 0, output: 1000}}]' > prices.yaml
  printf '%s\n' "image: $IMAGE" "volumes: [{host_path: $WORK/shared, mount_path: $WORK/shared}]" \
    'secrets: [{name: model-keys, env: [OPENAI_API_KEY]}]' 'termination_grace_period_seconds: 15' "${@:4}" > pods.yaml
}

# run PARALLEL: runs a batch; what it says is in `said`.
run() {
  "$binary" batch run tasks.jsonl --config team.yaml --models prices.yaml --on kubernetes --kubernetes pods.yaml \
    --parallel "$1" --max-cost-usd 1000 > said 2>&1
}

# ends_with STATUS COMMAND…: checks the exit status of a command.
ends_with() {
  local status=0
  "${@:2}" || status=$?
  [ "$status" = "$1" ] || { echo "exit status $status, expected $1" >&2; cat said >&2; return 1; }
}

admin() { kubectl --kubeconfig="$WORK/admin" "$@"; }
has_said() { grep -q "$1" said; }
pods_are() { [ "$(admin get pods --field-selector=status.phase=Running -o name | wc -l)" = "$1" ]; }
claims_are() { [ "$(find .massgen/batches/*/claims -name 'c*' | wc -l)" -ge "$1" ]; }
is_empty() { [ -z "$(admin get jobs,pods -o name)" ]; }
first_pod() { admin get pods --field-selector=status.phase=Running -o name | head -n 1; }

# is_complete CELLS: checks that each cell has one result and one bill, and that no Job and no pod is left.
is_complete() {
  "$binary" batch results --json > lines
  jq -es --argjson count "$1" 'length == $count and (map(.cell.id) | unique | length) == $count and all(
    .outcome == "completed" and .cell.engine == "kubernetes" and .cell.files == 1 and .cell.cost_usd == 1)' \
    lines > result || { head -n 3 lines; return 1; }
  "$binary" batch status --json |
    jq -e --argjson count "$1" '.cells.completed == $count and .money.spent_usd == $count' > result
  until_true "no Jobs and no pods" is_empty
}

many_cells() {
  local began=$SECONDS
  project many 100 0
  ends_with 0 run 3
  echo "note: 100 cells in $((SECONDS - began)) s"
  is_complete 100
}

lost_pods_and_jobs() {
  local pod
  project lost 9 4000
  run 3 &
  until_true "three claims" claims_are 3
  until_true "three pods" pods_are 3
  admin get jobs,pods -o json > objects
  if grep -q sk-of-the-cluster objects; then return 1; fi
  admin delete --wait=false --grace-period=0 --force "$(first_pod)"
  until_true "three pods" pods_are 3
  pod=$(first_pod)
  pod=${pod#pod/}
  echo "{\"apiVersion\": \"policy/v1beta1\", \"kind\": \"Eviction\", \"metadata\": {\"name\": \"$pod\"}}" |
    admin create --raw "/api/v1/namespaces/$NAMESPACE/pods/$pod/eviction" -f - > result
  until_true "three pods" pods_are 3
  admin delete --wait=false jobs --all
  ends_with 0 wait "$!"
  is_complete 9
}

resumed_after_a_kill() {
  project killed 6 4000
  run 2 &
  until_true "claims" claims_are 2
  kill -KILL "$!"
  wait "$!" || true
  ends_with 0 "$binary" batch resume > said 2>&1
  is_complete 6
}

cancelled() {
  project cancelled 3 20000
  run 3 &
  until_true "claims" claims_are 3
  "$binary" batch cancel > note 2>&1
  ends_with 130 wait "$!"
  until_true "no Jobs and no pods" is_empty
  grep -q '"parked"' .massgen/batches/*/ends/*
  ends_with 0 "$binary" batch resume > said 2>&1
  is_complete 3
}

quota_of_pods() {
  project quota 2 0
  admin create quota small --hard=pods=0
  run 2 &
  until_true "a message about the quota" has_said 'exceeded quota: small'
  admin delete quota small
  ends_with 0 wait "$!"
  is_complete 2
}

full_cluster() {
  project full 1 0 'requests: {cpu: "1000"}'
  run 1 &
  until_true "a message about the nodes" has_said 'nodes are available: 2 Insufficient cpu'
  "$binary" batch cancel > note 2>&1
  ends_with 130 wait "$!"
  until_true "no Jobs and no pods" is_empty
}

refusals() {
  project refused 1 0 'image_pull_policy: Never'
  sed -i 's/^image: .*/image: massgen.test\/other:1/' pods.yaml
  ends_with 3 run 1
  # shellcheck disable=SC2016
  has_said 'the image `massgen.test/other:1` cannot be used'
  project refused 1 0 'massgen: /nowhere/massgen'
  ends_with 3 run 1
  has_said 'no such file or directory'
  project refused 1 0
  sed -i 's/model-keys/other-keys/' pods.yaml
  ends_with 3 run 1
  has_said 'secret "other-keys" not found'
  project refused 1 0 'namespace: elsewhere'
  ends_with 3 run 1
  has_said 'permission'
  project refused 1 0
  KUBECONFIG=$WORK/guest ends_with 3 run 1
  has_said 'cannot list resource "jobs"'
  admin create quota small --hard=count/jobs.batch=0
  ends_with 3 run 1
  has_said 'the quota of the namespace is used up'
  admin delete quota small
  until_true "no Jobs and no pods" is_empty
}

# A node vanishes with its pods. Kubernetes notices it after 12 s here, and massgen 45 s later that the pods
# do not end.
lost_node() {
  local tasks
  project node 8 4000
  run 4 &
  until_true "claims" claims_are 4
  kill -KILL "$(cat "$WORK/kubelet2.pid")"
  tasks=$(ctr -a "$WORK/node2/containerd.sock" -n k8s.io tasks ls | awk '$3 == "RUNNING" { print $2 }')
  kill -KILL "$(cat "$WORK/containerd2.pid")"
  pkill -KILL -f "$WORK/node2/containerd.sock" || true
  # shellcheck disable=SC2086
  kill -KILL $tasks
  ends_with 0 wait "$!"
  grep -q '"process_lost"' .massgen/batches/*/ends/*
  admin delete node node2
  is_complete 8
}

# check NAME COMMAND…: runs a command that counts as one test.
check() {
  local before=$SECONDS
  # Where the end of a command is asked for, a shell goes on after errors.
  (trap 'kill $(jobs -p) 2> /dev/null || true' EXIT; set -e; "${@:2}") > "$WORK/check.log" 2>&1 &
  if wait "$!"; then
    passed=$((passed + 1))
    echo "ok: $1 ($((SECONDS - before)) s)"
    grep '^note: ' "$WORK/check.log" || true
  else
    failed=$((failed + 1))
    echo "failed: $1" >&2
    cat "$WORK/check.log" >&2
    admin get jobs,pods -o wide >&2
    admin delete quota,jobs,pods --all --force > "$WORK/check.log" 2>&1 || true
  fi
}

passed=0 failed=0 binary=$WORK/shared/bin/massgen
mkdir -p "$WORK/shared/bin" "$WORK/shared/home"
cp "$massgen" "$binary"
export HOME=$WORK/shared/home KUBECONFIG=$WORK/user
checks=("${@:2}")
if [ "${#checks[@]}" = 0 ]; then
  checks=(many_cells lost_pods_and_jobs resumed_after_a_kill cancelled quota_of_pods full_cluster refusals lost_node)
fi
for name in "${checks[@]}"; do check "${name//_/ }" "$name"; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
