import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import { parse } from 'yaml'
import {
  CUSTOM_KINDS,
  type CustomKinds,
  type FieldLists,
  KUBERNETES,
  KUBERNETES_FIELDS,
  KUBERNETES_KINDS,
  KUBERNETES_SCHEMA,
  type Source,
} from './sources.ts'

const CDK8S_CLI = 'cdk8s-cli@2.207.60'
const INT_OR_STRING = 'io.k8s.apimachinery.pkg.util.intstr.IntOrString'
const HERE = import.meta.dirname
const TARGET = ts.ScriptTarget.ES2024
const require = createRequire(import.meta.url)

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
  oneOf?: { type: string }[]
  'x-kubernetes-group-version-kind'?: unknown
}

interface CustomResourceDefinition {
  spec: {
    group: string
    names: { kind: string }
    versions: { name: string; schema: { openAPIV3Schema: Schema } }[]
  }
}

/** What cdk8s-cli exports for its own command. Its public command cannot restrict the imported kinds. */
interface Importer {
  import(options: { outdir: string; targetLanguage: 'typescript'; classNamePrefix?: string }): Promise<void>
}
interface Cdk8sCli {
  readonly kubernetes: {
    ImportKubernetesApi: new (options: { apiVersion: string; exclude: string[] }) => Importer
  }
  readonly custom: { ImportCustomResourceDefinition: new (manifest: string) => Importer }
  readonly util: { download: (url: string) => Promise<string> }
}

const scratch = mkdtempSync(join(tmpdir(), 'cdk8s-import-'))
try {
  const cli = installCli()
  await importKubernetes(cli)
  for (const kinds of CUSTOM_KINDS) await importCustomKinds(cli, kinds)
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

function installCli(): Cdk8sCli {
  execFileSync('npm', ['install', '--prefix', scratch, '--no-audit', '--no-fund', CDK8S_CLI], {
    stdio: 'inherit',
  })
  // By path, because the package exports only its command.
  const load = (file: string) => require(join(scratch, 'node_modules/cdk8s-cli/lib', file))
  return { kubernetes: load('import/k8s.js'), custom: load('import/crd.js'), util: load('util.js') }
}

/** Downloads a module with Go, which verifies it against the checksum database. */
function fetchModule({ module, version }: Source): { readonly folder: string; readonly sum: string } {
  const options = { cwd: scratch, encoding: 'utf8' } as const
  const text = execFileSync('go', ['mod', 'download', '-json', `${module}@${version}`], options)
  const { Dir: folder, Sum: sum } = JSON.parse(text) as { Dir: string; Sum: string }
  return { folder, sum }
}

async function importKubernetes(cli: Cdk8sCli): Promise<void> {
  const { folder, sum } = fetchModule(KUBERNETES)
  const text = readFileSync(join(folder, KUBERNETES_SCHEMA), 'utf8')
  const { definitions } = JSON.parse(text) as { definitions: Record<string, Schema> }
  // The API accepts numbers too, which the specification expresses only in the descriptions of these two types.
  for (const name of ['io.k8s.apimachinery.pkg.api.resource.Quantity', INT_OR_STRING]) {
    definitions[name] = { oneOf: [{ type: 'string' }, { type: 'number' }] }
  }
  const wanted: readonly string[] = KUBERNETES_KINDS
  for (const [name, definition] of Object.entries(definitions)) {
    restrict(definition, name.slice(name.lastIndexOf('.') + 1), KUBERNETES_FIELDS)
    // cdk8s generates a class for each definition with this key, and types for all that a class refers to.
    if (!wanted.includes(name)) delete definition['x-kubernetes-group-version-kind']
  }
  cli.util.download = async () => JSON.stringify({ definitions })
  const importer = new cli.kubernetes.ImportKubernetesApi({
    apiVersion: KUBERNETES.version.slice(1),
    exclude: [],
  })
  await importer.import({ outdir: scratch, targetLanguage: 'typescript' })
  compile('k8s', 'k8s', header(KUBERNETES, sum, [[KUBERNETES_SCHEMA, text]]))
}

async function importCustomKinds(cli: Cdk8sCli, kinds: CustomKinds): Promise<void> {
  const { folder, sum } = fetchModule(kinds)
  const texts = kinds.files.map((file) => [file, readFileSync(join(folder, file), 'utf8')] as const)
  const crds = texts.map(([, text]) => parse(text) as CustomResourceDefinition)
  for (const { spec } of crds) {
    if (kinds.group !== undefined) spec.group = kinds.group
    spec.versions = spec.versions.filter(({ name }) => name === kinds.apiVersion)
    for (const { schema } of spec.versions) restrict(schema.openAPIV3Schema, spec.names.kind, kinds.fields)
  }
  const importer = new cli.custom.ImportCustomResourceDefinition(
    crds.map((crd) => JSON.stringify(crd)).join('\n---\n'),
  )
  await importer.import({ outdir: scratch, targetLanguage: 'typescript' })
  const [group = ''] = (importer as unknown as { moduleNames: string[] }).moduleNames
  compile(group, kinds.name, header(kinds, sum, texts))
}

/** Removes the fields that are not listed. Throws for a listed field that the schema lacks. */
function restrict(schema: Schema, path: string, lists: FieldLists): void {
  const { properties = {}, items } = schema
  if (items) {
    restrict(items, path, lists)
    return
  }
  const wanted = Object.hasOwn(lists, path) ? lists[path] : undefined
  const missing = wanted?.filter((name) => !Object.hasOwn(properties, name)) ?? []
  if (missing.length > 0) throw new Error(`${path} has no ${missing.join(', ')}`)
  for (const [name, property] of Object.entries(properties)) {
    if (wanted !== undefined && !wanted.includes(name)) delete properties[name]
    else restrict(property, `${path}.${name}`, lists)
  }
}

function header(
  { module, version }: Source,
  sum: string,
  files: readonly (readonly [path: string, text: string])[],
): string {
  const digest = (text: string) => createHash('sha256').update(text).digest('hex')
  return [
    '// Generated by `npm run import-types` with the types of `cdk8s import`. Do not edit.',
    `// Generator: ${CDK8S_CLI}`,
    `// Source: Go module ${module}@${version} ${sum}`,
    ...files.map(([path, text]) => `//   ${path} sha256:${digest(text)}`),
    '',
  ].join('\n')
}

/**
 * Writes JavaScript and declarations: the generated TypeScript contains parameter properties, which Node cannot run by
 * removing types.
 */
function compile(generated: string, name: string, head: string): void {
  const path = join(scratch, `${generated}.ts`)
  writeFileSync(path, withoutEnums(ts.createSourceFile(path, readFileSync(path, 'utf8'), TARGET)))
  const options: ts.CompilerOptions = {
    target: TARGET,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    declaration: true,
    removeComments: true,
    noCheck: true,
    types: [],
  }
  const write = (file: string, text: string) => {
    const isCode = file.endsWith('.js')
    writeFileSync(
      join(HERE, `${name}${isCode ? '.js' : '.d.ts'}`),
      head + (isCode ? text : acceptUndefined(text)),
    )
  }
  ts.createProgram([path], options).emit(undefined, write)
}

/**
 * Replaces each enum by a union of its values. cdk8s generates one enum for each field, so the protocol of an ingress
 * rule could not be used in an egress rule.
 */
function withoutEnums(source: ts.SourceFile): string {
  return source.statements
    .map((statement) => {
      if (!ts.isEnumDeclaration(statement)) return statement.getText(source)
      const values = statement.members.map(({ initializer }) => initializer?.getText(source))
      return `export type ${statement.name.text} = ${values.join(' | ')};`
    })
    .join('\n')
}

/** Optional fields accept `undefined`, which cdk8s does not render. A spread would hide a misspelt field. */
function acceptUndefined(text: string): string {
  const source = ts.createSourceFile('types.d.ts', text, TARGET)
  const ends = source.statements
    .filter(ts.isInterfaceDeclaration)
    .flatMap(({ members }) => [...members])
    .flatMap((member) =>
      ts.isPropertySignature(member) && member.questionToken ? [member.type?.end ?? 0] : [],
    )
  return ends.reduceRight((result, end) => `${result.slice(0, end)} | undefined${result.slice(end)}`, text)
}
