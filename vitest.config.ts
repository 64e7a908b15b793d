import { defineConfig } from 'vitest/config'

// Rooms of functions of their arguments: their files can share a process, which saves loading TypeScript for each.
const PURE = ['credit', 'data', 'dialects', 'trainer'].map((room) => `${room}/**/*.test.ts`)
const OUTSIDE = ['node_modules', 'dist']

export default defineConfig({
  test: {
    // For two cores: tests wait for other processes about a third of their time.
    maxWorkers: 3,
    testTimeout: 20_000,
    hookTimeout: 30_000,
    projects: [
      { extends: true, test: { name: 'pure', include: PURE, exclude: OUTSIDE, isolate: false } },
      { extends: true, test: { name: 'whole', include: ['**/*.test.ts'], exclude: [...OUTSIDE, ...PURE] } },
    ],
  },
})
