// SPDX-License-Identifier: Apache-2.0
int run_consumer();
int main() { return run_consumer(); }
