module kubetools/crds

go 1.26.3

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/fluxcd/kustomize-controller v1.9.6
	github.com/fluxcd/source-controller v1.9.6
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.1
)
