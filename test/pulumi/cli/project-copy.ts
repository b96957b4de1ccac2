import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { CONTROLLER_FILES } from '../../../infra/model/controller-release.ts'
import { RELEASE_FOLDER } from '../../../infra/release/read-release.ts'
import { ROOT, releaseFolder } from '../helpers/stack-file.ts'
import { PROVIDERS } from './attached-providers.ts'

/** Files that the documented commands read at run time. Tests, pages and images are excluded. */
const SOURCES = [
  'Pulumi.yaml',
  'package.json',
  'cdk8s.yaml',
  ...[
    'charts-src',
    'cli',
    'contracts',
    'environments',
    'gitops',
    'infra',
    'plans',
    'policies',
    'reachability',
    'runtime',
    'tools',
  ],
]
const sdk = createRequire(import.meta.url)

/** Copies the repository as after a clone and a fetch of the controller, without its history. */
export function copyRepository(folder: string): void {
  for (const source of SOURCES.filter((path) => existsSync(join(ROOT, path))))
    cpSync(join(ROOT, source), join(folder, source), { recursive: true })
  for (const file of readdirSync(ROOT).filter((name) => /^Pulumi\.[\w-]+\.yaml$/.test(name)))
    cpSync(join(ROOT, file), join(folder, file))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const release = releaseFolder()
  for (const { path } of release === undefined ? [] : CONTROLLER_FILES)
    cpSync(join(release ?? '', path), join(folder, RELEASE_FOLDER, path), { recursive: true })
}

/** A project of `test/fixtures`, under the packages of the repository. */
export const copyFixture =
  (name: string) =>
  (folder: string): void => {
    cpSync(join(ROOT, 'test/fixtures', name), folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  }

/**
 * Creates folders that the engine treats as installed plugins, so that it neither downloads nor starts a plugin: the
 * fake providers are attached. A plugin that is started anyway exits with an error message.
 */
export function fillPluginCache(home: string): void {
  for (const name of PROVIDERS) {
    const { version } = sdk(`@pulumi/${name}/package.json`) as { version: string }
    const folder = join(home, 'plugins', `resource-${name}-v${version}`)
    mkdirSync(folder, { recursive: true })
    const program = join(folder, `pulumi-resource-${name}`)
    writeFileSync(
      program,
      `#!/bin/sh\necho '${name} is attached by PULUMI_DEBUG_PROVIDERS, not started' >&2\nexit 1\n`,
    )
    chmodSync(program, 0o755)
  }
}
