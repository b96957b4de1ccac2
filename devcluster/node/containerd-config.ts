import { PAUSE_IMAGE } from '../images/toolbox.ts'

export interface ContainerdPaths {
  readonly root: string
  readonly cniBinaries: string
  readonly cniConfig: string
  readonly runc: string
}

/** Snapshotters and services that a test node does not need, or that need missing kernel features. */
const DISABLED = [
  'internal.v1.opt',
  'snapshotter.v1.blockfile',
  'snapshotter.v1.devmapper',
  'snapshotter.v1.zfs',
  'snapshotter.v1.btrfs',
  'snapshotter.v1.erofs',
  'tracing.processor.v1.otlp',
  'nri.v1.nri',
].map((name) => `"io.containerd.${name}"`)

export const CONTAINERD_SOCKET = '/run/containerd/containerd.sock'

/** containerd's configuration: overlayfs, runc, gVisor under the handler `runsc`, and the local pause image. */
export function containerdConfig({ root, cniBinaries, cniConfig, runc }: ContainerdPaths): string {
  return `version = 3
root = "${root}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [${DISABLED.join(', ')}]
[grpc]
  address = "${CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  use_local_image_pull = true
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE runc cannot lower an out-of-memory score, and no pod would start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${cniBinaries}"]
    conf_dir = "${cniConfig}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "${runc}"
        SystemdCgroup = false
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
      runtime_type = "io.containerd.runsc.v1"
`
}
