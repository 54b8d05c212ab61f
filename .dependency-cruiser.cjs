// shared ← engine ← { main, cli, serve, mcp } and shared ← preload ← renderer. Data goes one way.
const { Visitor } = require('@swc/core/Visitor.js')

// swc parses `using` and `await using`, but the visitor that comes with it does not know them and would end the
// whole check. What they declare is visited like any `const`.
const visitStatement = Visitor.prototype.visitStatement
Visitor.prototype.visitStatement = function (statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  statement.decls = this.visitVariableDeclarators(statement.decls)
  return statement
}

const stations = ['store', 'policy', 'preflight', 'workspace', 'sandbox', 'egress', 'agents', 'changeset']
const hosts = '^src/(main|cli|serve|mcp)/'

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'shared-imports-nothing-of-ours',
      severity: 'error',
      from: { path: '^src/shared/' },
      to: { path: '^src/(?!shared/)' },
    },
    {
      name: 'shared-runs-anywhere',
      severity: 'error',
      from: { path: '^src/shared/', pathNot: '\\.test\\.ts$' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'engine-knows-no-host',
      severity: 'error',
      from: { path: '^src/engine/' },
      to: { path: '^src/(?!shared/|engine/)' },
    },
    {
      name: 'engine-knows-no-electron',
      severity: 'error',
      from: { path: '^src/(engine|cli|serve|mcp)/' },
      to: { path: '^(node_modules/)?electron(/|$)' },
    },
    {
      name: 'preload-knows-only-shared',
      severity: 'error',
      from: { path: '^src/preload/' },
      to: { path: '^src/(?!shared/|preload/)' },
    },
    {
      name: 'renderer-knows-only-shared-and-preload',
      severity: 'error',
      from: { path: '^src/renderer/' },
      to: { path: '^src/(?!shared/|preload/|renderer/)' },
    },
    {
      name: 'renderer-runs-in-a-browser',
      severity: 'error',
      from: { path: '^src/renderer/', pathNot: '\\.test\\.tsx?$' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'a-station-knows-nothing-of-its-neighbours',
      comment:
        'engine/dispatch is the corridor; a station imports shared types, engine/*.ts basics and itself.',
      severity: 'error',
      from: {
        path: `^src/engine/(${stations.join('|')})/`,
        pathNot: '\\.test\\.ts$|/(testing|fixture)\\.ts$',
      },
      to: { path: '^src/engine/([^/]+)/', pathNot: '^src/engine/($1|base)/' },
    },
    {
      name: 'a-station-has-one-door',
      severity: 'error',
      from: { path: '^src/', pathNot: `^src/engine/(${stations.join('|')})/` },
      to: { path: `^src/engine/(${stations.join('|')})/`, pathNot: 'index\\.ts$' },
    },
    {
      name: 'hosts-do-not-know-each-other',
      severity: 'error',
      from: { path: '^src/(main|cli|mcp)/' },
      to: { path: hosts, pathNot: '^src/($1|serve)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    parser: 'swc',
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.json'],
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
    },
  },
}
