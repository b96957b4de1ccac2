module kubetools/crds

go 1.26.3

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/cilium/cilium v1.20.2
	github.com/fluxcd/kustomize-controller v1.9.6
	github.com/fluxcd/source-controller v1.9.6
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/agent-sandbox v1.0.3
	sigs.k8s.io/gateway-api v1.6.1
)
