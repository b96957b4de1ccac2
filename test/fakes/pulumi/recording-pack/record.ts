import { appendFileSync } from 'node:fs'
import services from '@pulumi/pulumi/proto/analyzer_grpc_pb.js'
import messages from '@pulumi/pulumi/proto/analyzer_pb.js'
import pluginMessages from '@pulumi/pulumi/proto/plugin_pb.js'
import { empty, fromStruct, listen } from '../wire.ts'

/** A policy pack that appends each request of the engine to the file of `RECORD_FILE`, as one line of JSON. */
const file = process.env['RECORD_FILE'] ?? ''
const note = (line: object) => appendFileSync(file, `${JSON.stringify(line)}\n`)

type Analyze = InstanceType<typeof messages.AnalyzeRequest>
type Resource = InstanceType<typeof messages.AnalyzerResource>

const shown = (message: Analyze | Resource) => ({
  urn: message.getUrn(),
  type: message.getType(),
  name: message.getName(),
  parent: message.getOptions()?.getParent() ?? '',
  protect: message.getOptions()?.getProtect() ?? false,
  ignoreChanges: message.getOptions()?.getIgnorechangesList() ?? [],
  properties: fromStruct(message.getProperties()),
})

function origins(message: Resource): Record<string, readonly string[]> {
  const found: Record<string, readonly string[]> = {}
  message.getPropertydependenciesMap().forEach((urns, property) => {
    found[property] = urns.getUrnsList()
  })
  return found
}

// The SDK's loader loads this file with `require`, which rejects modules with top-level await.
void listen([
  [
    services.AnalyzerService,
    {
      getAnalyzerInfo: () => {
        const info = new messages.AnalyzerInfo()
        info.setName('recording')
        info.setVersion('0.1.0')
        return info
      },
      getPluginInfo: () => new pluginMessages.PluginInfo(),
      configure: empty,
      configureStack: () => new messages.AnalyzerStackConfigureResponse(),
      remediate: () => new messages.RemediateResponse(),
      analyze: (request: Analyze) => {
        note({ kind: 'analyze', ...shown(request) })
        return new messages.AnalyzeResponse()
      },
      analyzeStack: (request: InstanceType<typeof messages.AnalyzeStackRequest>) => {
        const resources = request.getResourcesList().map((resource) => ({
          ...shown(resource),
          dependencies: resource.getDependenciesList(),
          origins: origins(resource),
        }))
        note({ kind: 'analyzeStack', resources })
        return new messages.AnalyzeResponse()
      },
    },
  ],
]).then(({ port }) => process.stdout.write(`${port}\n`))
