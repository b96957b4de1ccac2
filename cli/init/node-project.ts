import * as z from 'zod'
import type { Found } from './found.ts'
import type { ProjectFiles } from './project-files.ts'
import { hostsIn } from './registries.ts'

const Manifest = z.looseObject({
  scripts: z.record(z.string(), z.unknown()).catch({}).default({}),
  packageManager: z.string().catch('').default(''),
})

/** Scripts that check a project. Only these names are looked for, and the scripts themselves are not read. */
const CHECKS = ['test', 'lint', 'typecheck', 'check', 'build'] as const

type Manager = {
  readonly name: 'npm' | 'pnpm' | 'yarn' | 'bun'
  readonly lock: readonly string[]
  readonly install: string
  readonly registries: readonly string[]
}

const NPM_REGISTRY = 'registry.npmjs.org'
const NPM = {
  name: 'npm',
  lock: ['package-lock.json', 'npm-shrinkwrap.json'],
  install: 'npm ci',
  registries: [NPM_REGISTRY],
} satisfies Manager
const MANAGERS: readonly Manager[] = [
  {
    name: 'pnpm',
    lock: ['pnpm-lock.yaml'],
    install: 'pnpm install --frozen-lockfile',
    registries: [NPM_REGISTRY],
  },
  {
    name: 'yarn',
    lock: ['yarn.lock'],
    install: 'yarn install',
    registries: [NPM_REGISTRY, 'registry.yarnpkg.com'],
  },
  { name: 'bun', lock: ['bun.lock', 'bun.lockb'], install: 'bun install', registries: [NPM_REGISTRY] },
  NPM,
]

export async function look(project: ProjectFiles): Promise<Omit<Found, 'name'>> {
  const { scripts, packageManager } = parseManifest(await project.read('package.json'))
  const manager = managerOf(project, packageManager)
  const hasLock = manager.lock.some((name) => project.names.includes(name))
  const install = manager.name === 'npm' && !hasLock ? 'npm install' : manager.install
  const checks = CHECKS.filter((name) => Object.hasOwn(scripts, name))
  const own = hostsIn(await project.read('.npmrc'), /^\s*(?:@[\w-]+:)?registry\s*=/)
  return {
    commands: [
      install,
      ...checks.map((name) => (name === 'test' ? `${manager.name} test` : `${manager.name} run ${name}`)),
    ],
    registries: [...manager.registries, ...own],
  }
}

function managerOf({ names }: ProjectFiles, packageManager: string): Manager {
  const named = MANAGERS.find(({ name }) => packageManager.startsWith(`${name}@`))
  return named ?? MANAGERS.find(({ lock }) => lock.some((file) => names.includes(file))) ?? NPM
}

function parseManifest(text: string): z.infer<typeof Manifest> {
  try {
    const parsed = Manifest.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return { scripts: {}, packageManager: '' }
}
