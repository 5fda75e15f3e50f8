module sigs.k8s.io/iptables-wrappers

go 1.24.0

require k8s.io/utils v0.0.0-20240102154912-e7106e64919e
