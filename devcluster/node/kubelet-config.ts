import { CONTAINERD_SOCKET } from './containerd-config.ts'

export interface KubeletPaths {
  readonly address: string
  readonly authority: string
  readonly certificate: { readonly certificate: string; readonly key: string }
  readonly resolvConf: string
  readonly podLogs: string
  readonly dnsService: string
}

export const KUBELET_HEALTH_PORT = 10248

/**
 * A kubelet configuration with all settings that isolate pods. Only settings that a single machine cannot support are
 * relaxed.
 */
export function kubeletConfig(paths: KubeletPaths) {
  const { address, authority, certificate, resolvConf, podLogs, dnsService } = paths
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address,
    healthzBindAddress: address,
    healthzPort: KUBELET_HEALTH_PORT,
    readOnlyPort: 0,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true, cacheTTL: '1m' },
      x509: { clientCAFile: authority },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: certificate.certificate,
    tlsPrivateKeyFile: certificate.key,
    rotateCertificates: false,
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    cgroupDriver: 'cgroupfs',
    cgroupsPerQOS: true,
    enforceNodeAllocatable: ['pods'],
    // By default the kubelet rejects cgroup v1, which small virtual machines still use.
    failCgroupV1: false,
    failSwapOn: false,
    evictionHard: { 'memory.available': '100Mi' },
    // Images come from archives, so the kubelet could not pull a garbage-collected image again.
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    serializeImagePulls: false,
    clusterDomain: 'cluster.local',
    clusterDNS: [dnsService],
    resolvConf,
    podLogsDir: podLogs,
    maxPods: 200,
    shutdownGracePeriod: '0s',
    kubeAPIQPS: 100,
    kubeAPIBurst: 200,
    registryPullQPS: 0,
    eventRecordQPS: 0,
    nodeStatusUpdateFrequency: '5s',
  }
}
