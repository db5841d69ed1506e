module turnkeeper.dev/tests/cluster/coredns

go 1.25.0

tool github.com/coredns/coredns

require github.com/coredns/coredns v1.14.7
