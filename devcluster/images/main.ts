import { join } from 'node:path'
import { ensureTools } from '../build/ensure-tools.ts'
import { cacheRoot } from '../build/tool-cache.ts'
import { HarnessError } from '../harness-error.ts'
import { writeImages } from './oci-layout.ts'
import { apiImage, egressProxyImage, podImages } from './pod-images.ts'
import { dnsImage, pauseImage, toolboxImage } from './toolbox.ts'

/** Writes the images of the local cluster as one OCI layout, which registry clients can push. */
const folder = process.argv[2] ?? join('dist', 'images')

try {
  const tools = await ensureTools(['node', 'coredns'], (line) => process.stderr.write(`${line}\n`))
  const specs = [
    pauseImage(tools.bin('node', 'pause')),
    dnsImage(tools.bin('coredns', 'coredns')),
    toolboxImage(process.execPath),
    ...(await podImages(cacheRoot(), process.execPath)),
    await apiImage(cacheRoot(), process.execPath),
    await egressProxyImage(cacheRoot(), process.execPath),
  ]
  for (const { reference, digest } of await writeImages(folder, specs)) {
    process.stdout.write(`${reference}@${digest}\n`)
  }
} catch (error) {
  if (!(error instanceof HarnessError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
