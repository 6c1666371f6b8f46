#!/usr/bin/env bash
# Kiln inside another project: add_subdirectory, and FetchContent from a folder. The project has targets of the names that
# Kiln's own build uses, builds nothing but the runtime, and runs a package.
#   subproject_test.sh KILN SOURCE_DIR
set -euo pipefail
kiln=$(realpath "$1") source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }; }

# The last block of CMake in the document is this way of using Kiln; its main.cpp is the document's first.
block() { # LANGUAGE NUMBER
  awk -v fence="\`\`\`$1" -v want="$2" '$0 == fence && ++seen == want {on = 1; next} on && /^```/ {exit} on' "$source/docs/embedding.md"
}
mkdir -p "$work/project"
cd "$work/project"
block cmake 2 >CMakeLists.txt
grep -q FetchContent CMakeLists.txt || { echo "docs/embedding.md has no second project"; exit 1; }
block cpp 1 >main.cpp
ln -s "$source" kiln
cat >>CMakeLists.txt <<'C'
# Names that Kiln must not take.
foreach(name format check-format two_threads read_digits vector_math_check runtime debug tools)
  add_custom_target(${name})
endforeach()
get_property(names DIRECTORY ${kiln_SOURCE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
get_property(folders DIRECTORY ${kiln_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
foreach(folder ${folders})
  get_property(more DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  list(APPEND names ${more})
endforeach()
foreach(name ${names})
  if(NOT name MATCHES "^kiln(_|$)")
    message(FATAL_ERROR "Kiln has a target '${name}'")
  endif()
endforeach()
get_property(tests DIRECTORY ${kiln_SOURCE_DIR} PROPERTY TESTS)
if(tests OR CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O2 -DNDEBUG" OR DEFINED CPACK_PACKAGE_NAME OR DEFINED CACHE{CMAKE_INSTALL_LIBDIR})
  message(FATAL_ERROR "Kiln changes the project around it")
endif()
C
# What a cache has beside CMake's own and the project's must bear Kiln's name.
cached() { cmake -LA -N "$1" | sed -n 's/^\([A-Za-z_0-9]*\):.*/\1/p' | sort; }
mkdir plain
printf 'cmake_minimum_required(VERSION 3.25)\nproject(plain CXX)\nfind_package(Threads)\nfind_package(ZLIB)\nset(FETCHCONTENT_BASE_DIR x CACHE PATH "")\n' >plain/CMakeLists.txt
quietly cmake -S plain -B plain/build
quietly cmake -S . -B configured -D CMAKE_BUILD_TYPE=Release # the whole of Kiln, only configured
for name in $(comm -13 <(cached plain/build) <(cached configured)); do
  case $name in KILN_* | kiln_* | FETCHCONTENT_* | program_*) ;; *)
    echo "Kiln leaves the variable $name"
    exit 1
    ;;
  esac
done

# The runtime alone, built and used. Debug: the soonest built.
quietly cmake -S . -B build -D CMAKE_BUILD_TYPE=Debug -D KILN_RUNTIME_ONLY=ON
quietly cmake --build build -j 2
[ ! -e build/_deps/kiln-build/bin/kiln ] || { echo "the command was built, which nobody asked for"; exit 1; }
quietly "$kiln" compile "$source/tests/cases/mlp/model.pt2" -o model.kiln.pt2
./build/program | grep -E '^-?[0-9.]+$'
