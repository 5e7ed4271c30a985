#!/usr/bin/env bash
# Checks the files of this folder with the tools that read them, as far as those are installed, and says loudly what it
# could not check. Exit code 1 when something is wrong; what is not checked does not fail.
set -uo pipefail
cd "$(dirname "$0")"
wrong=0

ok() { printf 'ok           %s\n' "$1"; }
unchecked() { printf '*** NOT CHECKED: %s (%s)\n' "$1" "$2"; }
failed() {
  printf 'WRONG        %s\n%s\n' "$1" "$2"
  wrong=1
}
# verdict NAME COMMAND…
verdict() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then ok "$name"; else failed "$name" "$said"; fi
}

check_unit() {
  local folder
  folder=$(mktemp -d)
  # The command it starts need not be installed here: any program stands in for it.
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/sh|' systemd/warmlane.service >"$folder/warmlane.service"
  verdict 'systemd unit: systemd-analyze verify' systemd-analyze verify --man=no --recursive-errors=no "$folder/warmlane.service"
  # 0 is closed, 100 is open; the unit is meant to stay in the "OK" range.
  verdict 'systemd unit: systemd-analyze security' \
    systemd-analyze security --no-pager --offline=yes --threshold=30 "$folder/warmlane.service"
  rm -rf "$folder"
}
if command -v systemd-analyze >/dev/null; then check_unit; else unchecked 'systemd unit' 'systemd-analyze is not installed'; fi

if docker compose version >/dev/null 2>&1; then
  verdict 'compose file: docker compose config' docker compose -f compose.yaml config --quiet
else
  unchecked 'compose file' 'docker compose is not installed; its YAML is read by npm test'
fi

if docker info >/dev/null 2>&1; then
  verdict 'Dockerfile: docker build' docker build -f Dockerfile -t warmlane-check ..
else
  unchecked 'Dockerfile' 'no container engine runs here; its paths are checked by npm test'
fi

node check-fronts.mjs || wrong=1
exit $wrong
