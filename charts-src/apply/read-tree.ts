import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { parse } from 'yaml'
import type { Placed } from '../checks/checked-tree.ts'
import { listAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'

/** Returns the objects that `kubectl apply -k` would apply from a rendered tree, with their paths. */
export function readTreeObjects(folder: string): Placed[] {
  const root = join(folder, 'kustomization.yaml')
  if (!existsSync(root)) throw new Error(`${folder} holds no rendered tree: npm run synth writes them`)
  const apps = listAt(parse(readFileSync(root, 'utf8')), 'resources').map(String)
  return apps.flatMap((app) =>
    readdirSync(join(folder, app), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.yaml') && name !== 'kustomization.yaml')
      .sort()
      .map((name) => readObject(folder, join(folder, app, name))),
  )
}

function readObject(folder: string, file: string): Placed {
  const object = parse(readFileSync(file, 'utf8')) as KubeObject
  return { path: relative(folder, file).split(sep).join('/'), object }
}
