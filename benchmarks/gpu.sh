#!/usr/bin/env bash
# Measures the operations on keys and values on a GPU, with a random model of a 7B model's shape: under five minutes.
#
#   benchmarks/gpu.sh [--quick] [--json FILE]      PYTHON=/path/to/python3 picks another interpreter
#
# Needs torch, transformers and pydantic (what pkv-agents itself needs), no network, no weights, nothing installed:
# it runs from the checkout. Without a GPU it runs with --quick only.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
missing=$("$python" - <<'EOF'
import importlib.util
print(" ".join(name for name in ("torch", "transformers", "pydantic") if importlib.util.find_spec(name) is None))
EOF
)
if [ -n "$missing" ]; then
    echo "error: $python has no $missing; install: pip install 'pkv-agents[local]'" >&2
    exit 1
fi
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
exec timeout --signal=INT "${LIMIT_S:-290}" "$python" -m benchmarks.gpu "$@"
