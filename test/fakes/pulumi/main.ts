import { azureStandIn } from './azure/azure-provider.ts'
import { openCloud } from './cloud.ts'
import { kubernetesStandIn } from './kubernetes-provider.ts'
import { serveProvider } from './provider-server.ts'

/**
 * One stand-in as a process of its own: `node main.ts azure-native <folder of the cloud>`. Prints its port as a line,
 * and ends with its parent: what starts it holds the other end of its input.
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
