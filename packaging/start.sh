#!/bin/sh
# Starts sluice with the Node of its archive. This file may be reached by links, as package managers make them.
self=$0
while [ -L "$self" ]; do
  target=$(readlink "$self")
  case $target in
    /*) self=$target ;;
    *) self=$(dirname "$self")/$target ;;
  esac
done
lib=$(dirname "$self")/../lib/sluice
unset NODE_OPTIONS
exec "$lib/node" --disable-warning=ExperimentalWarning "$lib/sluice.mjs" "$@"
