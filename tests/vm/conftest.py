def pytest_configure(config):
    config.addinivalue_line("markers", "vm: boots another kernel in an emulator (minutes)")
