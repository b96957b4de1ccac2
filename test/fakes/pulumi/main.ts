import { azureStandIn } from './azure/azure-provider.ts'
import { openCloud } from './cloud.ts'
import { kubernetesStandIn } from './kubernetes-provider.ts'
import { serveProvider } from './provider-server.ts'

/**
 * Runs one fake provider in a separate process: `node main.ts azure-native <folder of the cloud>`. Prints its port on a
 * line, and exits with its parent, which holds the other end of its stdin.
 */
const FACTORIES = { 'azure-native': azureStandIn, kubernetes: kubernetesStandIn } as const
const [name = '', folder = ''] = process.argv.slice(2)
const standIn = FACTORIES[name as keyof typeof FACTORIES]
if (standIn === undefined || folder === '') {
  process.stderr.write(`usage: main.ts <${Object.keys(FACTORIES).join(' | ')}> <folder>\n`)
  process.exit(2)
}
const { port } = await serveProvider({ cloud: openCloud(folder), standIn, crash: () => process.exit(1) })
process.stdout.write(`${port}\n`)
process.stdin.on('end', () => process.exit(0)).resume()
