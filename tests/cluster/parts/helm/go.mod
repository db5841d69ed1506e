module turnkeeper.dev/tests/cluster/helm

go 1.25.0

tool helm.sh/helm/v3/cmd/helm

require helm.sh/helm/v3 v3.20.2
