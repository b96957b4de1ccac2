import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** The class of the library, and a plugin of Maven that uses it. Maven has the real `AbstractMojo`. */
const SOURCES = {
  'org/apache/maven/plugin/AbstractMojo.java':
    'package org.apache.maven.plugin; public abstract class AbstractMojo { public abstract void execute() throws Exception; }',
  'library/Library.java':
    'package library; public class Library { public static int answer() { return 42; } }',
  'plugin/Answer.java':
    'package plugin; public class Answer extends org.apache.maven.plugin.AbstractMojo { public void execute() { System.out.println(library.Library.answer()); } }',
  'META-INF/maven/plugin.xml':
    '<plugin><name>answer</name><groupId>com.example</groupId><artifactId>answer-maven-plugin</artifactId><version>1.0</version><goalPrefix>answer</goalPrefix><mojos><mojo><goal>answer</goal><description>Prints the answer.</description><instantiationStrategy>per-lookup</instantiationStrategy><requiresProject>false</requiresProject><implementation>plugin.Answer</implementation><language>java</language></mojo></mojos></plugin>',
}

interface Artifact {
  readonly group: string
  readonly name: string
  readonly version: string
  /** Folders of the classes that the archive has. */
  readonly content: readonly string[]
  readonly more?: string
}

const ARTIFACTS: readonly Artifact[] = [
  { group: 'com.example', name: 'pkg-f', version: '1.0', content: ['library'] },
  {
    group: 'com.example',
    name: 'answer-maven-plugin',
    version: '1.0',
    content: ['META-INF', 'plugin'],
    more: '<packaging>maven-plugin</packaging><dependencies><dependency><groupId>com.example</groupId><artifactId>pkg-f</artifactId><version>1.0</version></dependency></dependencies>',
  },
  // Maven 3.8 adds it to each plugin.
  { group: 'org.codehaus.plexus', name: 'plexus-utils', version: '1.1', content: ['library'] },
]

/** The files of a Maven repository with a library and a plugin. None on a machine without a compiler of Java. */
export function mavenPackages(): Readonly<Record<string, Buffer>> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-maven-packages-'))
  try {
    const classes = compiled(folder)
    return Object.fromEntries(ARTIFACTS.flatMap((artifact) => filesOf(artifact, classes)))
  } catch {
    return {}
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function compiled(folder: string): string {
  const classes = join(folder, 'classes')
  const files = Object.entries(SOURCES).map(([path, text]) => {
    const file = join(path.endsWith('.java') ? folder : classes, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    return file
  })
  const java = files.filter((file) => file.endsWith('.java'))
  execFileSync('javac', ['--release', '11', '-d', classes, ...java], { stdio: 'ignore' })
  rmSync(join(classes, 'org'), { recursive: true })
  return classes
}

function filesOf({ group, name, version, content, more = '' }: Artifact, classes: string) {
  const jar = join(dirname(classes), `${name}.jar`)
  execFileSync('jar', ['--create', '--file', jar, ...content.flatMap((folder) => ['-C', classes, folder])])
  const pom = `<project><modelVersion>4.0.0</modelVersion><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version>${more}</project>`
  const at = `${group.replaceAll('.', '/')}/${name}/${version}/${name}-${version}`
  const contents = [
    [`${at}.jar`, readFileSync(jar)],
    [`${at}.pom`, Buffer.from(pom)],
  ] as const
  return contents.flatMap(([path, bytes]) => {
    const digest = createHash('sha1').update(bytes).digest('hex')
    return [[path, bytes] as const, [`${path}.sha1`, Buffer.from(digest)] as const]
  })
}

/** A project whose builds use the repository. `private` names a path that the entry does not allow. */
export const javaProject = (url: string): Readonly<Record<string, string>> => ({
  'java/settings.xml': mirror(`${url}/maven2`),
  'java/private.xml': mirror(`${url}/private`),
  'java/build.gradle': gradleBuild(`${url}/maven2`),
  'java/private/build.gradle': gradleBuild(`${url}/private`),
})

const mirror = (url: string) =>
  `<settings><localRepository>/workspace/java/m2</localRepository><mirrors><mirror><id>site</id><mirrorOf>*</mirrorOf><url>${url}</url></mirror></mirrors></settings>`

const gradleBuild = (url: string) => `repositories { maven { url '${url}' } }
configurations { tried }
dependencies { tried 'com.example:pkg-f:1.0' }
task answer { doLast { configurations.tried.files.each { println it.name } } }
`
