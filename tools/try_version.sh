#!/bin/sh
# Runs all tests on another version of TensorFlow, in an environment of its own, .venv-VERSION:
#   tools/try_version.sh 2.19 [arguments of pytest]
set -eu
cd "$(dirname "$0")/.."
version=${1:?"which TensorFlow? tools/try_version.sh 2.19"}
shift
own=.venv-$version
if [ ! "$own/.ready" -nt setup.py ]; then
    echo "Installing TensorFlow $version into $own"
    [ -x "$own/bin/pip" ] || "${PYTHON:-python3.11}" -m venv --clear "$own"
    "$own/bin/pip" install -q -e '.[cpu,test]' "tensorflow-cpu==$version.*"
    "$own/bin/pip" install -q --no-deps "tf_keras==$version.*" # it asks for the full tensorflow
    touch "$own/.ready"
fi
"$own/bin/tfwave" doctor

failed=0
run() { "$own/bin/python" -m pytest -rs "$@" || failed=1; }
if [ $# -gt 0 ]; then
    run "$@"
else # as `make test` does; another TensorFlow comes with another protobuf
    run tests/unit tests/property tests/fuzz -n 2
    run tests/numerics -n 2 --dist loadfile
    run tests/cluster
fi
exit $failed
