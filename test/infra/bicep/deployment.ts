import { dirname, join } from 'node:path'
import { evaluate, groupOf, type Names, type Place, propertiesOf } from './expressions.ts'
import { type BicepFile, type Declaration, readBicep } from './file.ts'
import { parametersOf } from './parameters.ts'
import { type Node, partsOf } from './syntax.ts'
import {
  arrayOf,
  booleanOf,
  type Fields,
  Group,
  isFields,
  knownAtStart,
  Module,
  memberOf,
  plainOf,
  Resource,
  stringOf,
  type Value,
} from './values.ts'

/** A resource as the deployment sends it. Values that only Azure knows are expressions. */
export interface DeployedResource {
  /** Its name in the file. */
  readonly symbol: string
  readonly type: string
  readonly apiVersion: string
  /** With the names of its parents. */
  readonly name: string
  readonly id: string
  /** The id of the subscription, resource group or resource that it is deployed to. */
  readonly scope: string
  readonly location?: string
  readonly kind?: string
  readonly sku?: unknown
  readonly tags?: unknown
  readonly properties: Readonly<Record<string, unknown>>
}

export interface DeployedModule {
  readonly symbol: string
  readonly name: string
  readonly deployment: Deployment
}

/** What a file deploys, with the modules in it. */
export interface Deployment {
  readonly place: Place
  readonly resources: readonly DeployedResource[]
  readonly modules: readonly DeployedModule[]
  readonly outputs: Readonly<Record<string, unknown>>
  /** The resources and modules that each resource and module waits for, by their names in the file. */
  readonly waitsFor: ReadonlyMap<string, ReadonlySet<string>>
}

const RESOURCE_KEYS = [
  'name',
  'parent',
  'scope',
  'location',
  'kind',
  'sku',
  'tags',
  'properties',
  'dependsOn',
]
const MODULE_KEYS = ['name', 'scope', 'params', 'dependsOn']
const SUBSCRIPTION_TYPES = [
  'Microsoft.Resources/resourceGroups',
  'Microsoft.Authorization/roleDefinitions',
  'Microsoft.Authorization/roleAssignments',
]
const GROUPS = 'Microsoft.Resources/resourceGroups'

const isDeployed = ({ kind, isExisting }: Declaration) =>
  (kind === 'resource' && !isExisting) || kind === 'module'

function* identifiersIn(node: Node): Generator<string> {
  if (node.type === 'identifier') yield node.text
  // The first part of a property is its name.
  const parts = node.type === 'object_property' ? partsOf(node).slice(1) : partsOf(node)
  for (const part of parts) yield* identifiersIn(part)
}

/** The resources and modules that a declaration refers to, directly or through variables, as Bicep finds them. */
function waitsOf(file: BicepFile, declaration: Declaration, seen = new Set<string>()): Set<string> {
  const found = [...identifiersIn(declaration.node)].flatMap((name) => {
    const other = file.declarations.get(name)
    if (other === undefined || other === declaration || seen.has(name)) return []
    if (isDeployed(other)) return [name]
    return other.kind === 'variable' ? [...waitsOf(file, other, seen.add(name))] : []
  })
  return new Set(found)
}

class Deploying implements Names {
  readonly file: BicepFile
  readonly place: Place
  private readonly parameters: ReadonlyMap<string, Value> = new Map()
  readonly resources: DeployedResource[] = []
  readonly modules: DeployedModule[] = []
  private readonly values = new Map<string, Value>()

  constructor(path: string, given: Fields, place: Place) {
    this.file = readBicep(path)
    this.place = place
    const target = place.group === undefined ? 'subscription' : 'resourceGroup'
    if (this.file.targetScope !== target) throw new Error(`${path} cannot be deployed to a ${target}`)
    this.parameters = parametersOf(this.file, given, this)
  }

  lookUp(name: string): Value {
    const known = this.values.get(name) ?? this.parameters.get(name)
    if (known !== undefined) return known
    const declaration = this.file.declarations.get(name)
    const value = declaration === undefined ? this.importOf(name) : this.evaluateDeclaration(declaration)
    this.values.set(name, value)
    return value
  }

  private importOf(name: string): Value {
    const from = this.file.imports.get(name)
    if (from === undefined) throw new Error(`${name} is not declared`)
    const exported = readBicep(join(dirname(this.file.path), from)).declarations.get(name)
    if (!exported?.decorators.has('export')) throw new Error(`${from} does not export ${name}`)
    return evaluate(exported.body, {
      place: this.place,
      lookUp: (other) => {
        throw new Error(`${other} cannot be imported`)
      },
    })
  }

  /** The value of a variable, resource or module. One with a loop is a list. */
  private evaluateDeclaration(declaration: Declaration): Value {
    const { condition, loop } = declaration
    if (loop) {
      const items = arrayOf(evaluate(loop.source, this), `the list of ${declaration.name}`)
      return items.map((item, index) => this.evaluateOne(declaration, this.inLoop(loop, item, index)))
    }
    const isWanted =
      condition === undefined || booleanOf(evaluate(condition, this), `the condition of ${declaration.name}`)
    return this.evaluateOne(declaration, this, isWanted)
  }

  inLoop(loop: NonNullable<Declaration['loop']>, item: Value, index: number): Names {
    const lookUp = (name: string) => {
      if (name === loop.item) return item
      return name === loop.index ? index : this.lookUp(name)
    }
    return { place: this.place, lookUp }
  }

  private evaluateOne(declaration: Declaration, names: Names, isWanted = true): Value {
    if (declaration.kind === 'module') return this.module(declaration, names, isWanted)
    if (declaration.kind === 'resource') return this.resource(declaration, names, isWanted)
    return evaluate(declaration.body, names)
  }

  private module({ name: symbol, body, of }: Declaration, names: Names, isWanted: boolean): Module {
    const fields = fieldsOf(body, MODULE_KEYS)
    const value = (key: string) => evaluate(needed(fields, key), names)
    const scope = value('scope')
    const place =
      scope instanceof Group
        ? { ...this.place, group: scope }
        : { ...this.place, group: groupOf(this.place, groupNameOf(scope)) }
    const params = knownAtStart(value('params'), `the parameters of ${symbol}`)
    if (!isFields(params)) throw new Error(`${symbol} has no parameters`)
    const name = stringOf(value('name'), `the name of ${symbol}`)
    if (!isWanted) return new Module(() => absent(symbol))
    const inner = new Deploying(join(dirname(this.file.path), of), params, place)
    this.modules.push({ symbol, name, deployment: inner.run() })
    return new Module(() => inner.outputs())
  }

  private resource(declaration: Declaration, names: Names, isWanted: boolean): Resource {
    const { name: symbol, body, of, isExisting } = declaration
    const fields = fieldsOf(body, RESOURCE_KEYS)
    const value = (key: string) => {
      const node = fields.get(key)
      return node === undefined ? undefined : evaluate(node, names)
    }
    const [type = '', apiVersion = ''] = of.split('@')
    const own = stringOf(value('name') ?? null, `the name of ${symbol}`)
    const named = this.address(type, own, { parent: value('parent'), scope: value('scope') })
    const resource = new Resource({ type, ...named }, isWanted)
    if (isExisting || !isWanted) return resource
    const sent = ['location', 'kind', 'sku', 'tags', 'properties'].flatMap((key) => {
      const one = value(key)
      return one === undefined ? [] : [[key, plainOf(one)]]
    })
    const properties = {}
    this.resources.push({ symbol, type, apiVersion, ...named, properties, ...Object.fromEntries(sent) })
    return resource
  }

  /** Where a resource is, from its own name, its parent and its scope. */
  private address(
    type: string,
    own: string,
    { parent, scope }: { parent?: Value | undefined; scope?: Value | undefined },
  ) {
    if (parent instanceof Resource) {
      if (type.split('/').slice(0, -1).join('/') !== parent.type)
        throw new Error(`${type} is no child of ${parent.type}`)
      const at = scopeIdOf(this.place)
      return { name: `${parent.name}/${own}`, id: `${parent.id}/${type.split('/').at(-1)}/${own}`, scope: at }
    }
    if (parent !== undefined) throw new Error('a parent must be a resource')
    if (type.split('/').length > 2) throw new Error(`${type} needs a parent`)
    if (type === GROUPS && this.place.group === undefined)
      return { name: own, id: groupOf(this.place, own).id, scope: scopeIdOf(this.place) }
    if (this.place.group === undefined && !SUBSCRIPTION_TYPES.includes(type))
      throw new Error(`${type} cannot be deployed to a subscription`)
    const at = scope === undefined ? scopeIdOf(this.place) : stringOf(memberOf(scope, 'id'), 'a scope')
    return { name: own, id: `${at}/providers/${type}/${own}`, scope: at }
  }

  outputs(): Fields {
    const one = ({ body, loop }: Declaration): Value =>
      loop === undefined
        ? evaluate(body, this)
        : arrayOf(evaluate(loop.source, this), 'the list of an output').map((item, index) =>
            evaluate(body, this.inLoop(loop, item, index)),
          )
    return Object.fromEntries(this.file.outputs.map((output) => [output.name, one(output)]))
  }

  run(): Deployment {
    for (const name of this.file.declarations.keys()) this.lookUp(name)
    const deployed = [...this.file.declarations.values()].filter(isDeployed)
    return {
      place: this.place,
      resources: this.resources,
      modules: this.modules,
      outputs: plainOf(this.outputs()) as Readonly<Record<string, unknown>>,
      waitsFor: new Map(deployed.map((one) => [one.name, waitsOf(this.file, one)])),
    }
  }
}

const scopeIdOf = ({ subscriptionId, group }: Place) => group?.id ?? `/subscriptions/${subscriptionId}`

function groupNameOf(scope: Value): string {
  if (scope instanceof Resource && scope.type === GROUPS) return scope.name
  throw new Error('the scope of a module must be a resource group')
}

function absent(symbol: string): never {
  throw new Error(`${symbol} is not deployed`)
}

function needed(fields: ReadonlyMap<string, Node>, key: string): Node {
  const node = fields.get(key)
  if (node === undefined) throw new Error(`there is no ${key}`)
  return node
}

function fieldsOf(body: Node, keys: readonly string[]): Map<string, Node> {
  const fields = propertiesOf(body)
  const unknown = [...fields.keys()].filter((key) => !keys.includes(key))
  if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}`)
  return fields
}

/** What a Bicep file of a deployment to a subscription deploys with these parameters. */
export const deploy = (path: string, parameters: Fields, subscriptionId: string): Deployment =>
  new Deploying(path, parameters, { subscriptionId }).run()
