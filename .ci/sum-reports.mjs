/**
 * Adds up vitest's JSON reports into the closing line `N passed, N failed`. A report that is missing, and a test file that
 * did not load, count as one failure each; so does a failed step when every test passed, or the line would hide it.
 * Usage: sum-reports.mjs FOLDER FAILED_STEPS NAME…
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder = '', failedSteps = '0', ...names] = process.argv.slice(2);
const total = { passed: 0, failed: 0, skipped: 0 };

for (const name of names) {
  const report = readReport(name);
  const unloaded = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'),
  );
  for (const file of unloaded) console.log(`did not load or broke outside its tests: ${file.name}`);
  total.passed += report.numPassedTests;
  total.failed += report.numFailedTests + unloaded.length;
  total.skipped += report.numPendingTests;
  console.log(`${name}: ${report.numPassedTests} passed, ${report.numFailedTests + unloaded.length} failed`);
}
if (total.failed === 0) total.failed = Number(failedSteps);

console.log(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`);
process.exitCode = total.failed === 0 ? 0 : 1;

function readReport(name) {
  try {
    return JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
  } catch (error) {
    console.log(`no report of ${name}: ${error.message}`);
    return { numPassedTests: 0, numFailedTests: 1, numPendingTests: 0, testResults: [] };
  }
}
