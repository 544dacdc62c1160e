#!/usr/bin/env bash
# Measures batches of scripted cells with the release binary: rate, memory and processor time of the
# control process, the overhead beside the same runs by hand, and `status` of many cells. Arguments: the binary, and the number
# of cells (1000). Nothing is left behind.
set -euo pipefail
massgen=$(realpath "${1:-target/release/massgen}")
cells=${2:-1000}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME=$dir
mkdir app
echo "old" > app/a.txt
cat > team.yaml <<'YAML'
agents:
  - id: writer
    backend:
      type: scripted
      cwd: workspace
      replies:
        - when: {system: "the final agent", last: "b.txt"}
          text: "done"
        - when: {system: "the final agent"}
          calls: [{name: write_file, arguments: {path: "{{cwd}}/b.txt", content: "new\n"}}]
        - calls: [{name: new_answer, arguments: {content: "an answer"}}]
YAML
for i in $(seq "$cells"); do
  echo "{\"id\":\"c$i\",\"text\":\"work\",\"project\":{\"path\":\"app\"}}"
done > tasks.jsonl

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

began=$(now)
"$massgen" batch run tasks.jsonl --config team.yaml --parallel 4 > table.txt &
control=$!
most=0
while kill -0 $control 2> /dev/null; do
  kib=$(awk '/VmRSS/ {print $2}' /proc/$control/status 2> /dev/null || true)
  used=$(cat /proc/$control/task/*/schedstat 2> /dev/null | awk '{s += $1} END {print s / 1e6}' || true)
  [ -z "$used" ] || spent=$used
  done=$(find .massgen/batches/*/results -name '*.jsonl' 2> /dev/null | wc -l)
  echo "$done ${kib:-0}" >> memory.txt
  sleep 1
done
wait $control
seconds=$(since "$began")
cat table.txt
echo "$cells cells in $seconds s: $(awk -v c="$cells" -v s="$seconds" 'BEGIN { printf "%.1f", c / s }') a second"
echo "control process: $(awk -v u="${spent:-0}" -v c="$cells" 'BEGIN { printf "%.2f", u / c }') ms of processor time for each cell"
echo "control process, KiB after so many cells:"
awk 'NR % 5 == 1' memory.txt | head -20

hand=$((cells < 100 ? cells : 100))
began=$(now)
for i in $(seq "$hand"); do
  mkdir "hand$i"
  cp app/a.txt "hand$i"
  (cd "hand$i" && "$massgen" --config ../team.yaml --cwd-context rw --output-format json work > result.json 2> /dev/null)
done
echo "$hand runs by hand, one after another: $(since "$began") s"
head -n "$hand" tasks.jsonl > few.jsonl
began=$(now)
"$massgen" batch run few.jsonl --config team.yaml --parallel 1 > /dev/null 2>&1
echo "$hand cells, one after another: $(since "$began") s"
began=$(now)
"$massgen" batch run few.jsonl --config team.yaml --parallel 1 --cells-per-job "$hand" > /dev/null 2>&1
echo "$hand cells, one after another in one job: $(since "$began") s"

many=100000
for i in $(seq $many); do echo "{\"id\":\"m$i\",\"text\":\"work\"}"; done > many.jsonl
began=$(now)
"$massgen" batch run many.jsonl --config team.yaml --parallel 1 > /dev/null 2>&1 &
control=$!
until ls .massgen/batches/*/claims/m1.1 > /dev/null 2>&1; do sleep 0.05; done
echo "a batch of $many cells began after $(since "$began") s; control process: $(awk '/VmRSS/ {print $2}' /proc/$control/status) KiB"
kill -TERM $control
wait $control || true
batch=$(dirname "$(dirname "$(ls -d .massgen/batches/*/claims/m1.1)")")
python3 - "$batch/results" $many <<'PY'
import json, sys
for i in range(1, int(sys.argv[2]) + 1):
    head = {"id": f"m{i}", "outcome": "completed", "exit_code": 0, "tags": [], "checks": "none", "winner": "a",
            "cost_usd": 0.01, "cost_is_complete": True, "duration_ms": i, "attempts": 1, "engine": "local",
            "host": "h", "ended": "", "files": 0}
    with open(f"{sys.argv[1]}/m{i}.jsonl", "w") as file:
        file.write(json.dumps(head) + "\n{}\n")
PY
for command in status status results; do
  began=$(now)
  "$massgen" batch $command "$(basename "$batch")" | head -2
  echo "$command of $many cells: $(since "$began") s"
done
