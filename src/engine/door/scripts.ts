import { doorPath } from '../base/sandbox.ts'
import { longestLine } from './wish.ts'

/**
 * Asks from inside, in nothing but a POSIX shell: a line into a pipe, and the answer is a file that appears.
 * Ends with 0 when it was granted, 77 when it was denied, 75 when nobody has answered. As an MCP server it only
 * carries bytes: who answers is outside.
 */
export const askScript = (door: string = doorPath): string => String.raw`#!/bin/sh
usage() {
  echo 'Usage: orangery-ask LEVEL [--host HOST[:PORT]]... [--reason TEXT] [--wait SECONDS]' >&2
  echo '       orangery-ask show | mcp' >&2
  echo 'Asks the person at the other end for a wider boundary: readwrite, network or full;' >&2
  echo 'shows the boundary as it is; or is an MCP server with tools for both.' >&2
  exit 64
}
text() { printf '%s' "$1" | tr '\000-\037\177' ' ' | sed 's/[\\"]/\\&/g'; }
say() {
  if [ "$(printf '%s' "$1" | wc -c)" -ge ${longestLine} ]; then
    echo 'orangery-ask: that is too long' >&2
    exit 64
  fi
  # Opened for both, so that it does not wait for a supervisor that is gone; begun on a line of its own.
  printf '\n%s\n' "$1" 1<>${door}/ask || exit 69
}
hear() {
  left=50
  asked=
  while [ ! -e "$answer" ]; do
    [ "$left" -gt 0 ] || { echo 'orangery-ask: nobody answers' >&2; exit 75; }
    if [ -z "$asked" ] && [ -e "$answer.asked" ]; then
      echo "orangery-ask: a person is asked, for at most $1 seconds" >&2
      asked=1
      left=$((left + $1 * 5))
    fi
    left=$((left - 1))
    sleep 0.2
  done
}
token=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
answer=${door}/answers/$token
case "$# $1" in
'1 show')
  say "{\"token\":\"$token\",\"call\":\"show\"}"
  hear 0
  { read -r code; cat; } <"$answer"
  exit "$code" ;;
'1 mcp')
  say "{\"token\":\"$token\",\"call\":\"mcp\"}"
  hear 0
  { read -r code; cat; } <"$answer" >&2
  [ "$code" -eq 0 ] || exit "$code"
  exec 3<"${door}/sessions/$token.out"
  cat <&3 &
  exec 3<&-
  { echo; cat; } >"${door}/sessions/$token.in"
  wait
  exit ;;
esac
level= hosts= reason= wait=0
while [ $# -gt 0 ]; do
  case $1 in
  --host) [ $# -gt 1 ] || usage; hosts="$hosts${'${hosts:+,}'}\"$(text "$2")\""; shift 2 ;;
  --reason) [ $# -gt 1 ] || usage; reason=$(text "$2"); shift 2 ;;
  --wait) [ $# -gt 1 ] || usage; wait=$2; shift 2 ;;
  -*) usage ;;
  *) [ -z "$level" ] || usage; level=$(text "$1"); shift ;;
  esac
done
case $wait in '' | *[!0-9]*) usage ;; esac
[ -n "$level" ] || usage
say "{\"token\":\"$token\",\"to\":\"$level\",\"hosts\":[$hosts],\"reason\":\"$reason\",\"wait_s\":$wait}"
hear "$wait"
{ read -r code; cat; } <"$answer" && exit "$code"
`

/** What an agent's MCP client reads to know of us. */
export const mcpConfig = (door: string = doorPath): string =>
  `${JSON.stringify(
    { mcpServers: { orangery: { type: 'stdio', command: `${door}/bin/orangery-ask`, args: ['mcp'] } } },
    null,
    2,
  )}\n`

/**
 * Stands before a program of the same name on PATH and refuses the calls that the boundary's list names. It
 * helps an agent that plays by the rules; one that does not calls the program by its path.
 */
export const commandScript = (door: string = doorPath): string => String.raw`#!/bin/sh
name=${'${0##*/}'}
while IFS= read -r entry; do
  case "$name $* " in
  "$entry "*)
    echo "orangery: $entry: not allowed at this boundary" >&2
    echo "  hint: ask for a wider one with orangery-ask" >&2
    exit 126 ;;
  esac
done <${door}/denied
set -f
IFS=:
for folder in $PATH; do
  if [ "$folder" != ${door}/commands ] && [ -x "$folder/$name" ] && [ ! -d "$folder/$name" ]; then
    unset IFS
    exec "$folder/$name" "$@"
  fi
done
echo "$name: not found" >&2
exit 127
`
