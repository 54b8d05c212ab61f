import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes minutes. Begun last, one of these would leave the other core idle at the end. */
const longest = [
  'test/changeset/faults.test.ts',
  'test/escape/escape.test.ts',
  'test/records/powerCut.test.ts',
  'test/cli/way.test.ts',
  'test/boundary/boundary.test.ts',
  'test/workspace/attacks.test.ts',
  'test/records/twoWriters.test.ts',
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const others = await super.sort(files)
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((name) => moduleId.endsWith(name))
      return at === -1 ? longest.length : at
    }
    return others.toSorted((one, other) => rank(one) - rank(other))
  }
}
