import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GO_BUILD_ENV, moduleFolder } from './cache-key.ts'
import { runGo } from './go-command.ts'
import { buildGvisorShim } from './gvisor-shim.ts'
import { type ModuleName, TOOL_MODULES } from './modules.ts'
import type { BuildProgress } from './progress.ts'

export interface ModuleBuild {
  readonly name: ModuleName
  /** The cache folder of the result. The finished build is renamed to it. */
  readonly entry: string
  readonly scratch: string
  readonly goCache: string
  readonly progress: BuildProgress
}

/** Builds the binaries of one module, copies their shared files, and moves both into the cache with one rename. */
export async function buildModule(build: ModuleBuild): Promise<void> {
  const stage = join(build.scratch, build.name)
  mkdirSync(join(stage, 'bin'), { recursive: true })
  if (TOOL_MODULES[build.name].packages.length > 0) {
    build.progress.expect(await countPackages(build))
    await compile(build, join(stage, 'bin'))
  } else await download(build)
  linkNames(build.name, join(stage, 'bin'))
  await copyShared(build, join(stage, 'share'))
  writeFileSync(join(stage, 'built.json'), JSON.stringify({ ...GO_BUILD_ENV, ...TOOL_MODULES[build.name] }))
  renameSync(stage, build.entry)
}

async function countPackages({ name, goCache, scratch, progress }: ModuleBuild): Promise<number> {
  const out = await runGo({
    cwd: moduleFolder(name),
    args: ['list', '-deps', ...TOOL_MODULES[name].packages],
    goCache,
    scratch,
    onLine: (line) => progress.downloading(line),
  })
  return out.split('\n').length - 1
}

async function compile(build: ModuleBuild, bin: string): Promise<void> {
  const { name, goCache, scratch, progress } = build
  const { packages, ldflags } = TOOL_MODULES[name]
  await runGo({
    cwd: moduleFolder(name),
    args: ['build', '-v', '-ldflags', ['-s', '-w', ...ldflags].join(' '), '-o', `${bin}/`, ...packages],
    goCache,
    scratch,
    onLine: (line) => progress.compiled(line),
  })
  if (name === 'gvisor') await buildGvisorShim({ goCache, scratch, bin })
}

/** Downloads modules that are used for their files only. No build would put them into the module cache. */
async function download({ name, goCache, scratch, progress }: ModuleBuild): Promise<void> {
  const modules = TOOL_MODULES[name].shared.map(({ module }) => module)
  const onLine = (line: string) => progress.downloading(line)
  await runGo({ cwd: moduleFolder(name), args: ['mod', 'download', ...modules], goCache, scratch, onLine })
}

function linkNames(name: ModuleName, bin: string): void {
  for (const [target, links] of Object.entries(TOOL_MODULES[name].links)) {
    for (const link of links) {
      if (!existsSync(join(bin, link))) symlinkSync(target, join(bin, link))
    }
  }
}

async function copyShared({ name, goCache, scratch }: ModuleBuild, share: string): Promise<void> {
  mkdirSync(share)
  for (const { module, from, to } of TOOL_MODULES[name].shared) {
    const folder = await runGo({
      cwd: moduleFolder(name),
      args: ['list', '-m', '-f', '{{.Dir}}', module],
      goCache,
      scratch,
    })
    cpSync(join(folder.trim(), from), join(share, to), { recursive: true })
  }
  // The module cache is read-only. A copy with the same modes could not be changed or deleted.
  execFileSync('chmod', ['-R', 'u+w', share])
}
