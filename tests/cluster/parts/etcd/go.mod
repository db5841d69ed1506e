module turnkeeper.dev/tests/cluster/etcd

go 1.25.0

tool go.etcd.io/etcd/server/v3

require go.etcd.io/etcd/server/v3 v3.6.16
