import type { Found, ProjectTool } from './found.ts'
import { look as lookAtNode } from './node-project.ts'
import type { ProjectFiles } from './project-files.ts'
import { hostsIn } from './registries.ts'

type Looked = Omit<Found, 'name'>

const has = ({ names }: ProjectFiles, ...wanted: string[]) => wanted.some((name) => names.includes(name))

const PYTHON_TOOLS = [
  { lock: 'uv.lock', install: 'uv sync', run: 'uv run ' },
  { lock: 'poetry.lock', install: 'poetry install', run: 'poetry run ' },
  { lock: 'requirements.txt', install: 'pip install -r requirements.txt', run: '' },
] as const
const PLAIN_PYTHON = { install: 'pip install -e .', run: '' } as const

async function lookAtPython(project: ProjectFiles): Promise<Looked> {
  const manifest = await project.read('pyproject.toml')
  const requirements = await project.read('requirements.txt')
  const { install, run } = PYTHON_TOOLS.find(({ lock }) => has(project, lock)) ?? PLAIN_PYTHON
  const usesPytest = /pytest/.test(manifest + requirements) || has(project, 'pytest.ini', 'conftest.py')
  const own = [
    ...hostsIn(requirements, /^\s*--(?:extra-)?index-url\b/),
    ...hostsIn(manifest, /^\s*(?:url|index-url|extra-index-url)\s*=/),
  ]
  return {
    commands: [
      install,
      `${run}${usesPytest ? 'pytest' : 'python -m unittest'}`,
      ...(has(project, 'tox.ini') ? ['tox'] : []),
    ],
    registries: ['pypi.org', 'files.pythonhosted.org', ...own],
  }
}

async function lookAtGradle(project: ProjectFiles): Promise<Looked> {
  const gradle = has(project, 'gradlew') ? './gradlew' : 'gradle'
  return {
    commands: [`${gradle} test`],
    registries: ['repo.maven.apache.org', 'plugins.gradle.org', 'services.gradle.org'],
  }
}

async function lookAtMake(project: ProjectFiles): Promise<Looked> {
  const file = ['GNUmakefile', 'makefile', 'Makefile'].find((name) => has(project, name)) ?? 'Makefile'
  const lines = (await project.read(file)).split('\n')
  const targets = ['test', 'check', 'lint'].filter((target) =>
    lines.some((line) => line.startsWith(`${target}:`)),
  )
  return { commands: targets.map((target) => `make ${target}`), registries: [] }
}

const always = (commands: readonly string[], registries: readonly string[]) => async (): Promise<Looked> => ({
  commands,
  registries,
})

export const PROJECT_TOOLS: readonly ProjectTool[] = [
  { name: 'Node.js', files: ['package.json'], look: lookAtNode },
  {
    name: 'Python',
    files: ['pyproject.toml', 'requirements.txt', 'setup.py', 'setup.cfg', 'Pipfile', 'tox.ini'],
    look: lookAtPython,
  },
  {
    name: 'Go',
    files: ['go.mod'],
    look: always(
      ['go vet ./...', 'go test ./...'],
      ['proxy.golang.org', 'sum.golang.org', 'storage.googleapis.com'],
    ),
  },
  {
    name: 'Rust',
    files: ['Cargo.toml'],
    look: always(['cargo test', 'cargo clippy'], ['index.crates.io', 'static.crates.io', 'crates.io']),
  },
  {
    name: 'Maven',
    files: ['pom.xml'],
    look: async (project) => ({
      commands: [has(project, 'mvnw') ? './mvnw test' : 'mvn test'],
      registries: ['repo.maven.apache.org', ...hostsIn(await project.read('pom.xml'), /<url>/)],
    }),
  },
  {
    name: 'Gradle',
    files: ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts'],
    look: lookAtGradle,
  },
  {
    name: 'Ruby',
    files: ['Gemfile'],
    look: async (project) => ({
      commands: ['bundle install', has(project, '.rspec') ? 'bundle exec rspec' : 'bundle exec rake test'],
      registries: ['rubygems.org', ...hostsIn(await project.read('Gemfile'), /^\s*source\b/)],
    }),
  },
  {
    name: 'PHP',
    files: ['composer.json'],
    look: always(['composer install', 'vendor/bin/phpunit'], ['repo.packagist.org']),
  },
  {
    name: '.NET',
    files: ['*.sln', '*.csproj', '*.fsproj'],
    look: always(['dotnet test'], ['api.nuget.org']),
  },
  { name: 'Make', files: ['Makefile', 'makefile', 'GNUmakefile'], look: lookAtMake },
]
