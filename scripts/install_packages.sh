#!/usr/bin/env bash
# Installs Debian packages: `build` for the binary, `dev` for tests, lint, fuzzing and cross tests too.
# Does nothing when all of them are there. Works as root and as a user with sudo.
set -euo pipefail

build_packages=(g++ cmake ninja-build make pkg-config ccache ca-certificates python3
  libfmt-dev nlohmann-json3-dev libcli11-dev libedit-dev libutf8proc-dev libsimdjson-dev libcurl4-openssl-dev libzip-dev libssl-dev
  libboost1.81-dev libboost-url1.81-dev libyaml-cpp-dev
  prometheus-cpp-dev libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler)
dev_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang-14 clang-tidy-14 clang-tidy-19 clang-format-19
  libclang-rt-14-dev qemu-user g++-aarch64-linux-gnu libsimde-dev python3-venv git gcovr binutils prometheus
  chromium chromium-driver)

packages=("${build_packages[@]}")
[[ "${1:-build}" == dev ]] && packages+=("${dev_packages[@]}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

sudo=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null || { echo "error: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "== installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -q
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
