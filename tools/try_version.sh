#!/bin/sh
# Runs the tests that use TensorFlow on another version of it, in an environment of its own, .venv-VERSION:
#   tools/try_version.sh 2.19 [arguments of pytest]
set -eu
cd "$(dirname "$0")/.."
version=${1:?"which TensorFlow? tools/try_version.sh 2.19"}
shift
[ $# -gt 0 ] || set -- tests/unit tests/numerics tests/cluster
own=.venv-$version
if [ ! -e "$own/.ready" ]; then
    "${PYTHON:-python3.11}" -m venv --clear "$own"
    "$own/bin/pip" install -q -e '.[cpu,test]' "tensorflow-cpu==$version.*"
    "$own/bin/pip" install -q --no-deps "tf_keras==$version.*" # it asks for the full tensorflow
    touch "$own/.ready"
fi
"$own/bin/tfwave" doctor
exec "$own/bin/python" -m pytest -rs "$@"
