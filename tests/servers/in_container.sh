# A server of MCP for images without anything but busybox. Its tool `run` runs a line of a shell.
while IFS= read -r message; do
  field() { printf '%s' "$message" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
  id=$(printf '%s' "$message" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case $(field method) in
    initialize)
      result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    tools/list)
      result='{"tools":[{"name":"run","description":"Runs a line.","inputSchema":{"type":"object","properties":{"line":{"type":"string"}}}}]}' ;;
    tools/call)
      text=$(sh -c "$(field line)" 2>&1 </dev/null | tr '\n\t"\\' '    ')
      result="{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}" ;;
    *)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"
      continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
