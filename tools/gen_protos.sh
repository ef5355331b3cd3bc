#!/bin/sh
# Regenerate tfwave/proto/*_pb2*. The compiler is old on purpose: what it writes runs under the protobuf
# of every supported TensorFlow (5 to 7); newer ones refuse an older runtime.
set -eu
cd "$(dirname "$0")/.."
tools=.venv-protos
[ -x $tools/bin/python ] || { "${PYTHON:-python3}" -m venv $tools && $tools/bin/pip install -q grpcio-tools==1.62.3 setuptools; }
$tools/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. tfwave/proto/*.proto
$tools/bin/python -m grpc_tools.protoc -I. --grpc_python_out=. tfwave/proto/control.proto tfwave/proto/reduce.proto
